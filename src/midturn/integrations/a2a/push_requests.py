"""Handles the requests that the protocol does not require every application to support: push
notifications and extended cards.
"""

from __future__ import annotations

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCard,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
)

from midturn.integrations.a2a.calls import client_of, reported
from midturn.integrations.a2a.questions import Client
from midturn.integrations.a2a.tasks import TaskReader
from midturn.integrations.a2a.webhooks import Webhooks


class PushRequestHandler(RequestHandler):
    """Stores the webhooks of tasks. Refuses extended cards.

    Args:
        reader: Reads the state of tasks.
        webhooks: The webhooks in the store; None if push notifications are off.
    """

    def __init__(self, reader: TaskReader, webhooks: Webhooks | None) -> None:
        self._reader = reader
        self._webhooks = webhooks

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store a webhook for a task."""
        client = client_of(params, context)
        with reported():
            webhooks = self._required()
            await self._check_task(params.task_id, client)
            return await webhooks.add(params, params.task_id, client)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Return a webhook of a task."""
        client = client_of(params, context)
        with reported():
            webhooks = self._required()
            await self._check_task(params.task_id, client)
            found = await webhooks.get(params.task_id, params.id)
            if found is None:
                raise TaskNotFoundError("There is no such push notification configuration.")
            return found

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Return all webhooks of a task."""
        client = client_of(params, context)
        with reported():
            webhooks = self._required()
            await self._check_task(params.task_id, client)
            configs = await webhooks.of_task(params.task_id)
            return ListTaskPushNotificationConfigsResponse(configs=configs)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Remove a webhook of a task, if it exists."""
        client = client_of(params, context)
        with reported():
            webhooks = self._required()
            await self._check_task(params.task_id, client)
            await webhooks.remove(params.task_id, params.id)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse the request, because the public card is complete."""
        del params, context
        raise ExtendedAgentCardNotConfiguredError("The public card is complete.")

    def _required(self) -> Webhooks:
        """Return the stored webhooks, if push notifications are on.

        Raises:
            PushNotificationNotSupportedError: Push notifications are off.
        """
        if self._webhooks is None:
            raise PushNotificationNotSupportedError(
                "Push notifications are not supported. Poll the task, or subscribe to it."
            )
        return self._webhooks

    async def _check_task(self, task: str, client: Client) -> None:
        if await self._reader.turn(task, client) is None:
            raise TaskNotFoundError("There is no such task.")
