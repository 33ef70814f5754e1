"""Small environments on stock OpenEnv, each served on a port of its own by one process.

  toy      openenv_server.py's: MCP tools, a task API, `submit`, one reward at the end
  guess    plain: a typed action, a reward for each step, no task API, wants `seed`
  gallery  MCP tools that give images and nested objects, none of them `submit`; tasks without ids and hashes
  echo     the one that openenv itself ships, which `openenv init` makes a new environment from; it never ends
  korrel   a conversation of the published package korrel, which exports it to OpenEnv

The argument is a JSON list of what to serve: {"env": NAME, "max_concurrent_envs": 1, "session_timeout": null,
"ws_ping_interval": 20, "ws_ping_timeout": 20}. Prints one JSON line when all listen:
{"ready": true, "ports": [N, ...], "pid": N, "openenv": "x.y.z"}; ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import inspect
import json
import os
import random
import socket
import struct
import sys
import tempfile
import time
import types
import zlib
from pathlib import Path
from typing import Any, Literal, Optional

import uvicorn
from fastmcp import FastMCP
from fastmcp.utilities.types import Image
from pydantic import Field

from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State

import openenv_server


class Guess(Action):
    number: int = Field(ge=0, le=99, description="What you guess; no thirteen")
    pause: float = Field(default=0, ge=0, description="Seconds that the answer takes")


class Hint(Observation):
    hint: Literal["guess", "higher", "lower", "found"]
    guesses_left: int


class GuessState(State):
    done: bool = False


class GuessEnvironment(Environment):
    """A number below 100 is to be found with five guesses; each wrong one costs a tenth.

    Its state tells `done`, as that of OpenEnv's own maze does.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._secret, self._state = 0, GuessState()

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None) -> Hint:
        self._secret, self._state = random.Random(seed).randrange(100), GuessState(episode_id=episode_id)
        return Hint(hint="guess", guesses_left=5)

    def step(self, action: Guess, timeout_s: Optional[float] = None) -> Hint:
        if action.number == 13:
            raise ValueError("thirteen brings bad luck")
        time.sleep(action.pause)
        self._state.step_count += 1
        left, found = 5 - self._state.step_count, action.number == self._secret
        hint = "found" if found else "higher" if action.number < self._secret else "lower"
        self._state.done = found or left == 0
        return Hint(hint=hint, guesses_left=left, reward=1.0 if found else -0.1, done=found or left == 0,
                    metadata={"success": found} if found or left == 0 else {})

    @property
    def state(self) -> State:
        return self._state


PICTURES = [{"title": "Dawn", "colours": [[255, 0, 0], [255, 255, 0]]}, {"title": "Sea", "colours": [[0, 0, 255]]}]


def png(colours: list[list[int]]) -> bytes:
    """An image of one row, a pixel for each colour."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes(value for colour in colours for value in colour)
    header = struct.pack(">IIBBBBB", len(colours), 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")


class GalleryEnvironment(MCPEnvironment):
    """A picture is to be named. The reward is a truth value, and comes with the answer only."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        mcp = FastMCP("gallery")
        self._picture, self._answer, self._state = PICTURES[0], None, State()

        @mcp.tool
        def look() -> Image:
            """Look at the picture."""
            return Image(data=png(self._picture["colours"]), format="png")

        @mcp.tool
        def label():
            """Read the label, and look at the picture beside it."""
            return [{"size": {"height": 1, "width": len(self._picture["colours"])}}, Image(data=png(self._picture["colours"]), format="png")]

        @mcp.tool
        def palette(names: bool = False) -> dict:
            """The picture's colours."""
            pixels = [{"at": {"x": x, "y": 0}, "colour": c} for x, c in enumerate(self._picture["colours"])]
            return {"pixels": pixels, "frame": None, "names": ["é", "\u2028"] if names else []}

        @mcp.tool
        def answer(title: str) -> str:
            """Name the picture: ends the episode."""
            self._answer = title
            return "noted"

        super().__init__(mcp)

    def reset(self, split: str = "train", index: int = 0) -> Observation:
        self._picture, self._answer, self._state = PICTURES[index], None, State()
        return Observation()

    def _judged(self, obs: Observation) -> Observation:
        self._state.step_count += 1
        if self._answer is not None:
            obs.done, obs.reward = True, self._answer == self._picture["title"]
        return obs

    def step(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:
        return self._judged(super().step(action, timeout_s=timeout_s, **kwargs))

    async def step_async(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:
        return self._judged(await super().step_async(action, timeout_s=timeout_s, **kwargs))

    def _step_impl(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:
        return Observation(metadata={"error": f"unknown action {type(action).__name__}"})

    @property
    def state(self) -> State:
        return self._state

    def list_tasks(self, split: str) -> list[Any]:
        return [{"question": f"What is picture {index + 1} called?"} for index in range(len({"train": PICTURES}[split]))]


def gallery() -> dict[str, Any]:
    return dict(env=GalleryEnvironment, action_cls=CallToolAction, observation_cls=CallToolObservation)


def guess() -> dict[str, Any]:
    return dict(env=GuessEnvironment, action_cls=Guess, observation_cls=Hint)


def toy() -> dict[str, Any]:
    return dict(env=openenv_server.ToyEnvironment, action_cls=CallToolAction, observation_cls=CallToolObservation,
                env_name="toy_env")


def module(name: str, source: str) -> types.ModuleType:
    made = types.ModuleType(name)
    sys.modules[name] = made
    exec(compile(source, name, "exec"), made.__dict__)
    return made


def echo() -> dict[str, Any]:
    """What `openenv init echo` writes, with its placeholders filled in likewise."""
    template = importlib.resources.files("openenv.cli") / "templates" / "openenv_env"

    def filled(path: str) -> str:
        text = (template / path).read_text()
        return text.replace("__ENV_CLASS_NAME__", "Echo").replace("__ENV_TITLE_NAME__", "Echo").replace("__ENV_NAME__", "echo")

    models = module("models", filled("models.py"))
    served = module("echo_environment", filled("server/__ENV_NAME___environment.py"))
    return dict(env=served.EchoEnvironment, action_cls=models.EchoAction, observation_cls=models.EchoObservation)


def korrel() -> dict[str, Any]:
    """A desk where lost things are asked for; the user's part is scripted, so that no model is needed."""
    from korrel import MockTool, Persona, Rubric, Scenario
    from korrel.exporters.openenv import build_environment_class, write_openenv_env

    def helpful(completion: list, info: dict, **_: Any) -> float:
        said = " ".join(message.content or "" for message in completion if message.role == "assistant")
        return float(info["shelf"] in said)

    def looked(completion: list, info: dict, **_: Any) -> float:
        return float(any(message.role == "tool" for message in completion))

    def respond(arguments: dict, state: dict) -> dict:
        state["asked"] = state.get("asked", 0) + 1
        return {"found": [{"what": arguments.get("what"), "shelf": "B4"}], "asked": state["asked"]}

    class Caller:
        def next_message(self, messages: list) -> Optional[str]:
            spoken = sum(1 for message in messages if message.role == "assistant" and not message.tool_calls)
            return "On which shelf?" if spoken == 1 else None

    schema = {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}
    scenario = Scenario(
        id="lost-and-found", system="You keep the lost things.", persona=Persona(goal="Get your red umbrella back."),
        opening_message="Do you have a red umbrella?", tools=[MockTool(name="search", schema=schema, respond=respond)],
        max_turns=3, info={"shelf": "B4"}, rubric=Rubric([helpful, looked]),
    )
    with tempfile.TemporaryDirectory() as folder:
        write_openenv_env(scenario, Path(folder))
        models = module("korrel_models", (Path(folder) / "models.py").read_text())
    made = build_environment_class(scenario, models.KorrelObservation, models.KorrelAction, persona=Caller())
    return dict(env=made, action_cls=models.KorrelAction, observation_cls=models.KorrelObservation)


ENVS = {"toy": toy, "guess": guess, "gallery": gallery, "echo": echo, "korrel": korrel}


def build_app(wanted: dict[str, Any]) -> Any:
    name, known = wanted["env"], inspect.signature(create_fastapi_app).parameters
    config = ConcurrencyConfig(max_concurrent_envs=wanted.get("max_concurrent_envs", 1),
                               session_timeout=wanted.get("session_timeout"))
    settings = dict(env_name=name, concurrency_config=config) | ENVS[name]()
    return create_fastapi_app(**{key: value for key, value in settings.items() if key in known})


async def serve(wanted: list[dict[str, Any]]) -> None:
    sockets, servers = [], []
    for each in wanted:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sockets.append(sock)
        servers.append(uvicorn.Server(uvicorn.Config(
            build_app(each), log_level="warning", timeout_graceful_shutdown=1,
            ws_ping_interval=each.get("ws_ping_interval", 20.0), ws_ping_timeout=each.get("ws_ping_timeout", 20.0),
        )))
    running = [asyncio.create_task(server.serve(sockets=[sock])) for server, sock in zip(servers, sockets)]
    while not all(server.started for server in servers):
        await asyncio.sleep(0.02)
    ports = [sock.getsockname()[1] for sock in sockets]
    print(json.dumps({"ready": True, "ports": ports, "pid": os.getpid(), "openenv": openenv_server.version()}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for server in servers:
        server.should_exit = True
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
