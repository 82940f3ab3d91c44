"""Messages that must not count as an answer, per platform: from strangers, pictures,
forwarded, edited, too long, old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from support.channels.phones import DiscordPhone, NtfyPhone, Phone, SlackPhone, TelegramPhone
from support.waiting import until

Act: TypeAlias = Callable[[Any, str], Awaitable[None]]
"""Sends an invalid reply from a phone, about the card with this reference."""
LONG: Final = "yes " * 250_000
PICTURE: Final = b"\x89PNG\r\n\x1a\n"


# Telegram
# --------------------------------------------------------------------------------------------------


async def _telegram_stranger(phone: TelegramPhone, ref: str) -> None:
    phone.server.write(9, "yes", about=int(ref))
    phone.server.press(9, 7, int(ref), "Yes")


async def _telegram_forwarded(phone: TelegramPhone, ref: str) -> None:
    origin = {
        "type": "user",
        "date": 1,
        "sender_user": {"id": 7, "is_bot": False, "first_name": "Ana"},
    }
    phone.server.write(7, "yes", about=int(ref), forward_origin=origin)


async def _telegram_edited(phone: TelegramPhone, ref: str) -> None:
    phone.server.edit(7, "yes", about=int(ref))


async def _telegram_picture(phone: TelegramPhone, ref: str) -> None:
    photo = [{"file_id": "p", "file_unique_id": "p", "width": 1, "height": 1}]
    phone.server.write(7, None, about=int(ref), photo=photo)


# Slack
# --------------------------------------------------------------------------------------------------


async def _slack_stranger(phone: SlackPhone, ref: str) -> None:
    await phone.server.write("U-eve", "yes", "D-eve", thread_ts=ref)
    await phone.server.press("U-eve", "D-ana", ref, "Yes")


async def _slack_forwarded(phone: SlackPhone, ref: str) -> None:
    await phone.server.write(
        "U-ana", "", "D-ana", thread_ts=ref, attachments=[{"is_share": True, "text": "yes"}]
    )


async def _slack_edited(phone: SlackPhone, ref: str) -> None:
    now = {"type": "message", "user": "U-ana", "text": "yes", "thread_ts": ref}
    await phone.server.write(
        "U-ana", "yes", "D-ana", thread_ts=ref, subtype="message_changed", message=now
    )


async def _slack_picture(phone: SlackPhone, ref: str) -> None:
    await phone.server.write(
        "U-ana", "", "D-ana", thread_ts=ref, subtype="file_share", files=[{"id": "F1"}]
    )


# Discord
# --------------------------------------------------------------------------------------------------


async def _discord_stranger(phone: DiscordPhone, ref: str) -> None:
    await phone.server.write("99", "yes", about=ref)
    await phone.server.press("99", ref, "Yes")


async def _discord_forwarded(phone: DiscordPhone, ref: str) -> None:
    await phone.server.write(
        "77", "", message_reference={"type": 1, "message_id": ref, "channel_id": "500"}
    )


async def _discord_edited(phone: DiscordPhone, ref: str) -> None:
    await phone.server.edit("77", "yes", about=ref)


async def _discord_picture(phone: DiscordPhone, ref: str) -> None:
    picture = {"id": "5", "filename": "yes.png", "size": 1, "url": "", "proxy_url": ""}
    await phone.server.write("77", "", about=ref, attachments=[picture])


# ntfy
# --------------------------------------------------------------------------------------------------


async def _ntfy_stranger(phone: NtfyPhone, ref: str) -> None:
    """Write to other topics, and guess the topic of the buttons. A reader of Ana's own topic
    would be Ana.
    """
    del ref
    await phone.server.write("yes", "eve-questions")
    await phone.server.write("A" * 22, phone.server.answers())


async def _ntfy_forwarded(phone: NtfyPhone, ref: str) -> None:
    del ref
    await phone.server.write("yes", title="midturn", tags=["forwarded"])


async def _ntfy_picture(phone: NtfyPhone, ref: str) -> None:
    del ref
    await phone.server.write(
        "yes", attachment={"name": "yes.png", "url": "https://ntfy.example.org/file/yes.png"}
    )


# E-mail, Matrix
# --------------------------------------------------------------------------------------------------


async def _email_stranger(phone: Any, ref: str) -> None:
    phone.house.post(
        phone.reply("yes", ref, sender="eve@evil.test"),
        "eve@evil.test",
        signed_by="evil.test",
        to=phone.bot,
    )


async def _email_forged(phone: Any, ref: str) -> None:
    phone.house.post(phone.reply("yes", ref), "eve@evil.test", signed_by="evil.test", to=phone.bot)
    phone.house.post(phone.reply("yes", ref), phone.account, to=phone.bot)


async def _email_forwarded(phone: Any, ref: str) -> None:
    mail = phone.reply("yes", ref)
    del mail["From"]
    mail["From"] = "bo@bo.test"
    phone.house.post(mail, "bo@bo.test", signed_by="bo.test", to=phone.bot)


async def _email_picture(phone: Any, ref: str) -> None:
    mail = phone.reply("", ref)
    mail.clear_content()
    mail.set_content(PICTURE, maintype="image", subtype="png", filename="yes.png")
    phone.house.post(mail, phone.account, signed_by="ana.test", to=phone.bot)


async def _email_html(phone: Any, ref: str) -> None:
    """Send `yes` only in parts that a mail program does not show: a comment, a style, a quote."""
    mail = phone.reply("", ref)
    mail.clear_content()
    mail.set_content("<!-- yes --><style>yes</style><blockquote>yes</blockquote>", subtype="html")
    phone.house.post(mail, phone.account, signed_by="ana.test", to=phone.bot)


async def _matrix_stranger(phone: Any, ref: str) -> None:
    eve = phone.server.account("eve")
    room = await eve.room_with(phone.bot.user)
    said = await eve.say(room, "yes", to=phone.last(ref))
    await eve.react(room, said, "\U0001f44d")


async def _matrix_forwarded(phone: Any, ref: str) -> None:
    """Copy the card into another room and reply to it there."""
    del ref
    room = await phone.ana.room_with(phone.bot.user)
    copy = await phone.ana.say(room, "Deploy to production?", **{"midturn.token": "A" * 22})
    await phone.ana.say(room, "yes", to=copy)


async def _matrix_edited(phone: Any, ref: str) -> None:
    await phone.ana.say(phone.room, "yes", edits=phone.last(ref))


async def _matrix_picture(phone: Any, ref: str) -> None:
    relates = {"m.in_reply_to": {"event_id": phone.last(ref)}}
    content = {
        "msgtype": "m.image",
        "body": "yes",
        "url": "mxc://bot.test/yes",
        "m.relates_to": relates,
    }
    await phone.ana.send(phone.room, "m.room.message", content)


async def _matrix_long(phone: Any, ref: str) -> None:
    """The longest text a homeserver accepts: an event has at most 64 KB."""
    await phone.write(LONG[:60_000], ref)


async def _long(phone: Phone, ref: str) -> None:
    await phone.write(LONG, ref)


INVALID_REPLIES: Mapping[str, Mapping[str, Act]] = {
    "telegram": {
        "a stranger": _telegram_stranger,
        "forwarded": _telegram_forwarded,
        "edited": _telegram_edited,
        "a picture": _telegram_picture,
        "a megabyte": _long,
    },
    "slack": {
        "a stranger": _slack_stranger,
        "forwarded": _slack_forwarded,
        "edited": _slack_edited,
        "a picture": _slack_picture,
        "a megabyte": _long,
    },
    "discord": {
        "a stranger": _discord_stranger,
        "forwarded": _discord_forwarded,
        "edited": _discord_edited,
        "a picture": _discord_picture,
        "a megabyte": _long,
    },
    "ntfy": {
        "a stranger": _ntfy_stranger,
        "forwarded": _ntfy_forwarded,
        "a picture": _ntfy_picture,
        "a megabyte": _long,
    },
    "email": {
        "a stranger": _email_stranger,
        "forged": _email_forged,
        "forwarded": _email_forwarded,
        "a picture": _email_picture,
        "HTML": _email_html,
        "a megabyte": _long,
    },
    "matrix": {
        "a stranger": _matrix_stranger,
        "forwarded": _matrix_forwarded,
        "edited": _matrix_edited,
        "a picture": _matrix_picture,
        "a megabyte": _matrix_long,
    },
}


# Button presses of an old card
# --------------------------------------------------------------------------------------------------


def prepared_press(phone: Any, ref: str, label: str) -> Callable[[], Awaitable[object]]:
    """Return a function that presses the button as it is now, even if the card changes later.

    On a platform without buttons, the function writes the label.
    """
    match phone.kind:
        case "telegram":
            return phone.server.pressing(7, 7, int(ref), label)
        case "slack" | "discord":
            at = ("U-ana", "D-ana", ref, label) if phone.kind == "slack" else ("77", ref, label)
            return phone.server.pressing(*at)
        case "ntfy":
            message = next(
                one for one in phone.server.shown() if one.get("sequence_id", one["id"]) == ref
            )
            return lambda: phone.server.press(message, label)
        case "email":
            mail = phone.reply(label, ref)
            return lambda: _posted(phone, mail)
        case _:
            event = phone.last(ref)
            return lambda: phone.ana.say(phone.room, label, to=event)


async def _posted(phone: Any, mail: Any) -> None:
    phone.house.post(mail, phone.account, signed_by="ana.test", to=phone.bot)


async def card(phone: Phone, number: int = 1) -> Any:
    """Wait for `number` open cards and return the last."""
    await until(lambda: len([one for one in phone.cards() if one.is_open]) >= number, seconds=120)
    return [one for one in phone.cards() if one.is_open][-1]
