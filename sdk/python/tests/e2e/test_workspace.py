"""Pydantic AI's own tests of a workspace, with a session as the workspace."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from fleets import FLEET
from over_http import as_on_the_fleet
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from workspace_backend import ThermaeWorkspace

from thermae import AsyncSandbox


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class WorkspaceTests(WorkspaceBackendSuite):
    url = ""

    @pytest.fixture
    async def box(self) -> AsyncIterator[AsyncSandbox]:
        async with AsyncSandbox(self.url) as box:
            yield box

    @pytest.fixture
    async def backend(self, box: AsyncSandbox) -> AsyncIterator[WorkspaceBackend]:
        workspace = ThermaeWorkspace(box)
        yield workspace
        if workspace.ref is not None:
            await workspace.destroy()

    @pytest.fixture
    def fresh_backend(self, box: AsyncSandbox) -> Callable[[], WorkspaceBackend]:
        return lambda: ThermaeWorkspace(box)

    @pytest.fixture
    def attach_backend(self, box: AsyncSandbox) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: ThermaeWorkspace(box, ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert isinstance(backend, ThermaeWorkspace)
            await backend.destroy()

        return destroy


@as_on_the_fleet
class TestEmbedded(WorkspaceTests):
    url = "embedded"


@pytest.mark.fleet
class TestFleet(WorkspaceTests):
    url = FLEET

    @pytest.fixture(autouse=True)
    def needs_a_fleet(self) -> None:
        if not FLEET:
            pytest.fail("THERMAE_TEST_AMQP_TENANT must have the URL of a fleet's RabbitMQ, for a tenant")
