"""The requests of the protocol that are not supported."""

# ruff: noqa: ARG002  the SDK's interface determines the arguments

from __future__ import annotations

from typing import Final

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
)

NO_PUSH: Final = "Push notifications are not supported. Poll the task, or subscribe to it."


class PartialHandler(RequestHandler):
    """Refuses push notifications and extended cards."""

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: push notifications are not supported."""
        raise PushNotificationNotSupportedError(NO_PUSH)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse: push notifications are not supported."""
        raise PushNotificationNotSupportedError(NO_PUSH)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Refuse: push notifications are not supported."""
        raise PushNotificationNotSupportedError(NO_PUSH)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Refuse: push notifications are not supported."""
        raise PushNotificationNotSupportedError(NO_PUSH)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse: the public card is complete."""
        raise ExtendedAgentCardNotConfiguredError("The public card is complete.")
