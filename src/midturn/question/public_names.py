"""Names under which programs know our classes: the modules behind `midturn` are private, and Python's own texts would show them."""

from __future__ import annotations

from types import FunctionType


def public_repr(instance: object, name: str, details: str = "") -> str:
    """Return the `repr` of an instance of the public class `name`; a class that a program has derived keeps Python's own.

    Args:
        instance: The instance.
        name: The name of its class in `midturn`.
        details: What tells it from others; its address if empty.
    """
    if not type(instance).__module__.startswith("midturn."):
        return object.__repr__(instance)
    return f"<midturn.{name} {details or f'object at {id(instance):#x}'}>"


def name_methods(owner: type, prefix: str) -> None:
    """Rename the public methods of a private base class, so that Python's errors show `prefix` and the method's name.

    Args:
        owner: The base class.
        prefix: The public class and a dot, or nothing if there are several public classes.
    """
    for name, member in vars(owner).items():
        function: object = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            function.__qualname__ = f"{prefix}{name}"
