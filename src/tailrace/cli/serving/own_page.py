"""The page of a server: what it is about, as whom it connects, and when it is encrypted."""

import argparse
import ssl
from typing import Final

from tailrace.cli.serving.exposure import is_loopback
from tailrace.cli.serving.own_pipeline import Pipeline, own_source
from tailrace.cli.serving.page import OFF, http_of, in_one_line
from tailrace.errors import UsageError
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.server.access.builtin_roles import builtin_privileges
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.web.http_thread import HttpThread
from tailrace.web.subject import Subject

_PAGE_USER: Final = "__page"


def bind_page(arguments: argparse.Namespace, options: ServerOptions, log: Logbook) -> HttpThread | None:
    """Bind the address of the page; None if there is none. Raises `UsageError`."""
    if arguments.http != OFF and options.tls is not None:
        try:
            options.tls.pipeline_options()
        except UsageError as error:
            if arguments.http is not None:
                raise
            log.warning("NETWORK", "Running without a page", reason=str(error))
            return None
    return http_of(arguments, is_guarded=options.auth and options.tls is not None)


def start_page(page: HttpThread, server: Server | Cluster, pipeline: Pipeline | None, log: Logbook) -> None:
    """Serve the page of a running server."""
    options = server.options
    page.start(
        Subject(
            command="serve",
            source=own_source(server, _PAGE_USER, builtin_privileges("clusterMonitor", "admin")),
            clients_uri=server.uri,
            has_users=options.auth,
            is_own=True,
            data=options.data,
            history=None if pipeline is None else pipeline.history,
            keep_seconds=None if pipeline is None else pipeline.keep_seconds,
            keep_bytes=None if pipeline is None else pipeline.keep_bytes,
        ),
        lambda error: log.error("NETWORK", "The page failed", error=in_one_line(error)),
        tls=_certificates(options, page.host),
    )


def _certificates(options: ServerOptions, host: str) -> ssl.SSLContext | None:
    """The server's certificate where others can connect; browsers are not asked for theirs."""
    if options.tls is None or is_loopback(host):
        return None
    settings = options.tls.settings
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def load() -> None:
        context.load_cert_chain(settings.certificate_key_file, password=settings.key_password)

    load()
    options.tls.on_reload.append(load)
    return context
