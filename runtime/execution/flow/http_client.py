"""Sends the requests of flows: bounded, without redirects, to public addresses only."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from runtime.contract.settings.http_hosts import is_listed
from runtime.execution.flow.address import AddressRefused, AllowAddress, PublicResolver
from runtime.execution.flow.faults import FlowFault
from runtime.execution.flow.http import HttpAnswer, HttpRequest
from runtime.execution.flow.limits import (
    HEADER_CHARACTERS,
    HTTP_CONNECT_SECONDS,
    HTTP_RESPONSE_BYTES,
    URL_CHARACTERS,
)

USER_AGENT: Final = "holdfast-flow"
_CHUNK: Final = 64 * 1024


class GuardedHttpClient:
    """The client of a running service. Each request has a connection of its own, made to the very address that was
    checked; proxies, cookies, redirects and compression are off.

    Args:
        allow: lets addresses through that are not public; None: none.
        lookup: resolves names without judging; None: the system's resolver.
        hosts: those that may be asked, see `is_listed`; None: any.
    """

    def __init__(
        self,
        allow: AllowAddress | None = None,
        lookup: AbstractResolver | None = None,
        hosts: Sequence[str] | None = None,
    ) -> None:
        self._resolver = PublicResolver(allow, lookup)
        self._hosts = hosts

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """See HttpClient."""
        url = checked_url(request.url)
        check_headers(request.headers)
        host = url.raw_host or ""
        if self._hosts is not None and not is_listed(self._hosts, host):
            raise FlowFault(f"{host!r} is not among the hosts that flows may reach here")
        try:
            self._check_literal(url, host)
            return await self._exchange(request, url)
        except (AddressRefused, aiohttp.ClientConnectorDNSError) as error:
            refused = error if isinstance(error, AddressRefused) else error.os_error
            text = str(refused) if isinstance(refused, AddressRefused) else f"{host!r} cannot be resolved"
            raise FlowFault(text) from None
        except TimeoutError:
            raise FlowFault(f"{host!r} did not answer within {request.seconds:g} s", status_code=504) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FlowFault(f"the request to {host!r} failed: {type(error).__name__}") from None

    def _check_literal(self, url: URL, host: str) -> None:
        # The connector asks the resolver for names only; an address in the url is judged here.
        try:
            ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return
        self._resolver.check(host, url.port or 0, host)

    async def _exchange(self, request: HttpRequest, url: URL) -> HttpAnswer:
        timeout = aiohttp.ClientTimeout(total=request.seconds, connect=min(request.seconds, HTTP_CONNECT_SECONDS))
        headers = [("User-Agent", USER_AGENT), ("Accept-Encoding", "identity"), *request.headers]
        if request.body is not None:
            headers.append(("Content-Type", "application/json"))
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                trust_env=False,
                auto_decompress=False,
            ) as session,
            session.request(request.method, url, headers=headers, data=request.body, allow_redirects=False) as response,
        ):
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise FlowFault(f"{url.raw_host!r} answered with a compressed body, which was not asked for")
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > HTTP_RESPONSE_BYTES:
                    raise FlowFault(f"the answer of {url.raw_host!r} is larger than {HTTP_RESPONSE_BYTES} bytes")
            return HttpAnswer(response.status, _joined(response.headers), bytes(body))


def checked_url(text: str) -> URL:
    """An address that may be requested, its host not yet looked at.

    Raises:
        FlowFault: not http or https, no host, a user name or password in it, characters that hide something.
    """
    if len(text) > URL_CHARACTERS:
        raise FlowFault(f"the url has {len(text)} characters, at most {URL_CHARACTERS} are allowed")
    if not text.isprintable() or " " in text or "\\" in text:
        raise FlowFault("the url has a space, a backslash or an invisible character in it")
    try:
        url = URL(text)
        host, port = url.raw_host, url.port
    except ValueError:
        raise FlowFault("the url cannot be read") from None
    if url.scheme not in ("http", "https"):
        raise FlowFault("the url must begin with https:// or http://")
    if not host or not port:
        raise FlowFault("the url has no host, or no usable port")
    if url.raw_user is not None or url.raw_password is not None:
        raise FlowFault("the url has a user name or password in it; send a header instead")
    return url


def check_headers(headers: Sequence[tuple[str, str]]) -> None:
    """Refuses values that would end a header, or are too long.

    Raises:
        FlowFault
    """
    for name, value in headers:
        if len(value) > HEADER_CHARACTERS or any(ord(character) < 32 or ord(character) == 127 for character in value):
            raise FlowFault(f"the value of the header {name!r} has a control character, or is too long")


def _joined(headers: Mapping[str, str]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
