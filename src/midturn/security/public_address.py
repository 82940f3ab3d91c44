"""Public IP addresses. A URL that came from outside may be contacted only at such an address."""

from __future__ import annotations

import ipaddress


def is_public(address: str) -> bool:
    """Return whether an IP address is public: not on this machine or a private network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = (ip.ipv4_mapped or ip.sixtofour) if isinstance(ip, ipaddress.IPv6Address) else None
    return ip.is_global and not ip.is_multicast and (inner is None or inner.is_global)
