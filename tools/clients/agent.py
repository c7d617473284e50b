"""An agent that uses the official SDKs as their documentation shows, and knows
nothing of Tallystick but the variables it is given. It does what agent.mjs does
and prints the same."""

import asyncio
import json
import os

import anthropic as anthropic_sdk
import httpx2
import openai as openai_sdk
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

openai = openai_sdk.OpenAI()
anthropic = anthropic_sdk.Anthropic()
HELLO = [{"role": "user", "content": "Say hello."}]


def say(*parts):
    print(" | ".join(str(p).lower() if isinstance(p, bool) else str(p) for p in parts), flush=True)


CHAT = {"model": "gpt-4o", "messages": HELLO}
ASK = {"model": "gpt-4o", "input": "Say hello."}
MESSAGE = {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": HELLO}


def chat_body():
    r = openai.chat.completions.create(**CHAT)
    say("chat body", r.choices[0].message.content, r.usage.total_tokens)


def chat_stream():
    text = ""
    for chunk in openai.chat.completions.create(**CHAT, stream=True):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
    say("chat stream", text)


def responses_body():
    r = openai.responses.create(**ASK)
    say("responses body", r.output_text, r.usage.total_tokens)


def responses_stream():
    text, end = "", ""
    for event in openai.responses.create(**ASK, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        if event.type == "response.completed":
            end = event.response.status
    say("responses stream", text, end)


def messages_body():
    r = anthropic.messages.create(**MESSAGE)
    say("messages body", r.content[0].text, r.stop_reason, r.usage.output_tokens)


def messages_stream():
    with anthropic.messages.stream(**MESSAGE) as stream:
        r = stream.get_final_message()
    say("messages stream", r.content[0].text, r.stop_reason, r.usage.output_tokens)


def models():
    for body, stream in ((chat_body, chat_stream), (responses_body, responses_stream), (messages_body, messages_stream)):
        body()
        stream()
        stream()
        body()
    say("openai models", ",".join(m.id for m in openai.models.list()))
    say("anthropic models", ",".join(m.id for m in anthropic.models.list()))
    say("tokens", anthropic.messages.count_tokens(model=MESSAGE["model"], messages=HELLO).input_tokens > 0)


def plain(block):
    return block.model_dump(exclude_none=True)


async def tools_over_http():
    headers = {"Authorization": f"Bearer {os.environ['TALLY_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers) as connection:
        async with Client(streamable_http_client(os.environ["TALLY_MCP_URL"], http_client=connection)) as client:
            say("tools", ",".join(t.name for t in (await client.list_tools()).tools))
            denied = await client.call_tool("transfer", {"to": "eve"})
            say("denied", denied.is_error, denied.content[0].text.startswith("denied by policy"))


async def loops():
    server = StdioServerParameters(
        command=os.environ["TALLY_BRIDGE_COMMAND"],
        env={"TALLY_BRIDGE": "1", "TALLY_MCP_URL": os.environ["TALLY_MCP_URL"], "TALLY_TOKEN": os.environ["TALLY_TOKEN"]},
    )
    async with Client(stdio_client(server), mode="legacy") as client:
        await client.send_ping()
        weather = next(t for t in (await client.list_tools()).tools if t.name == "get_weather")
        question = {"role": "user", "content": "What is the weather in Oslo?"}

        functions = [{"type": "function", "function": {"name": weather.name, "description": weather.description, "parameters": weather.input_schema}}]
        messages = [question]
        reply = openai.chat.completions.create(model="gpt-4o", messages=messages, tools=functions).choices[0].message
        messages.append(plain(reply))
        for call in reply.tool_calls:
            result = await client.call_tool(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})
        reply = openai.chat.completions.create(model="gpt-4o", messages=messages, tools=functions).choices[0].message
        say("chat loop", reply.content)

        tools = [{"name": weather.name, "description": weather.description, "input_schema": weather.input_schema}]
        messages = [question]
        answer = anthropic.messages.create(model=MESSAGE["model"], max_tokens=64, messages=messages, tools=tools)
        messages.append({"role": "assistant", "content": [plain(b) for b in answer.content]})
        results = []
        for block in answer.content:
            if block.type == "tool_use":
                result = await client.call_tool(block.name, block.input)
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": result.content[0].text})
        messages.append({"role": "user", "content": results})
        answer = anthropic.messages.create(model=MESSAGE["model"], max_tokens=64, messages=messages, tools=tools)
        say("messages loop", answer.content[0].text)


def failure(name, call):
    try:
        call()
        say(name, "no error")
    except (openai_sdk.APIStatusError, anthropic_sdk.APIStatusError) as e:
        say(name, e.status_code, "CassetteMiss" in str(e), "the case has ended" in str(e))


models()
asyncio.run(tools_over_http())
asyncio.run(loops())
failure("chat miss", lambda: openai.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "Something else."}]))
failure("chat stream after", lambda: openai.chat.completions.create(**CHAT, stream=True))
failure("responses after", lambda: openai.responses.create(**ASK))
failure("messages after", lambda: anthropic.messages.create(**MESSAGE))
