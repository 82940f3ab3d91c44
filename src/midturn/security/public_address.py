"""Checks whether an IP address is public. A URL from an untrusted source may be contacted only at a
public address.
"""

from __future__ import annotations

import ipaddress


def is_public(address: str) -> bool:
    """Return whether an IP address is public. Addresses of this machine and of private networks are
    not public.
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = (ip.ipv4_mapped or ip.sixtofour) if isinstance(ip, ipaddress.IPv6Address) else None
    return ip.is_global and not ip.is_multicast and (inner is None or inner.is_global)
