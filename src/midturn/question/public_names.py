"""Public names for classes from private modules, so that Python's messages and `repr` do not
show the private modules.
"""

from __future__ import annotations

from types import FunctionType


def public_repr(instance: object, name: str, details: str = "") -> str:
    """Return the `repr` of an instance of the public class `name`. Subclasses in other programs
    keep Python's default.

    Args:
        instance: The instance.
        name: Name of the class in `midturn`.
        details: Text that identifies the instance. Default: its address.
    """
    if not type(instance).__module__.startswith("midturn."):
        return object.__repr__(instance)
    return f"<midturn.{name} {details or f'object at {id(instance):#x}'}>"


def name_methods(owner: type, prefix: str) -> None:
    """Rename the public methods of a private base class, so that error messages show `prefix` and
    the method's name.

    Args:
        owner: The base class.
        prefix: The public class and a dot, or an empty string if there are several public classes.
    """
    for name, member in vars(owner).items():
        function: object = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            function.__qualname__ = f"{prefix}{name}"
