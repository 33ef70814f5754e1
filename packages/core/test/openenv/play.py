"""Plays episodes with OpenEnv's own Python client, and prints what it got of them.

Standard input: a JSON list of {"url", "reset": {...}, "actions": [{...}, ...]}. Standard output: a JSON list with, for
each of them, the answers to the reset and to each action: {"observation", "reward", "done"}, or {"error"} where the
client raised.
"""

import asyncio
import json
import sys
from typing import Any, Awaitable

from openenv.core.generic_client import GenericEnvClient


async def answer(asked: Awaitable[Any]) -> dict[str, Any]:
    try:
        result = await asked
    except Exception as error:
        return {"error": str(error)}
    return {"observation": result.observation, "reward": result.reward, "done": result.done}


async def played(episode: dict[str, Any]) -> list[dict[str, Any]]:
    async with GenericEnvClient(base_url=episode["url"]) as client:
        first = await answer(client.reset(**episode["reset"]))
        return [first, *[await answer(client.step(action)) for action in episode["actions"]]]


async def main() -> None:
    print(json.dumps([await played(episode) for episode in json.load(sys.stdin)]))


asyncio.run(main())
