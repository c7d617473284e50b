"""Every model API with the official Python SDK, unchanged: bodies, streams, tools,
images, vectors. Prints a line for each call; apis.mjs prints the same for Node.
The addresses and keys are those that the gateway gives every agent."""

import base64
import os

import anthropic
import boto3
from google import genai
from google.genai import types
from openai import AzureOpenAI, OpenAI

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def show(name, *values):
    print(name, *values, sep=" | ", flush=True)


def openai_apis(name, client, model):
    hello = [{"role": "user", "content": "hello"}]
    chat = client.chat.completions
    reply = chat.create(model=model, messages=hello)
    show(name + " chat", reply.choices[0].message.content, reply.usage.total_tokens)
    pieces = chat.create(model=model, messages=hello, stream=True, stream_options={"include_usage": True})
    show(name + " chat stream", "".join(p.choices[0].delta.content or "" for p in pieces if p.choices))
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
    asked = [{"role": "user", "content": "call get_weather"}]
    call = chat.create(model=model, messages=asked, tools=tools).choices[0].message
    show(name + " chat tool", call.tool_calls[0].function.name, call.tool_calls[0].function.arguments)
    result = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "rain"}
    show(name + " chat result", chat.create(model=model, messages=asked + [call, result], tools=tools).choices[0].message.content)
    image = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]
    show(name + " chat image", chat.create(model=model, messages=[{"role": "user", "content": image}]).choices[0].message.content)

    reply = client.responses.create(model=model, input="hello")
    show(name + " responses", reply.output_text, reply.usage.total_tokens)
    with client.responses.stream(model=model, input="hello") as stream:
        show(name + " responses stream", stream.get_final_response().output_text)
    embeddings(name, client, "embed-1")


def embeddings(name, client, model):
    create = client.embeddings.create
    show(name + " embedding", [round(x, 3) for x in create(model=model, input="one").data[0].embedding])
    show(name + " embeddings", [len(d.embedding) for d in create(model=model, input=["one", "two"], encoding_format="float").data])
    show(name + " embeddings dimensions", len(create(model=model, input=["one"], dimensions=2).data[0].embedding))
    show(name + " embeddings tokens", len(create(model=model, input=[[1, 2, 3], [4]]).data))


def anthropic_apis():
    client = anthropic.Anthropic()
    ask = {"model": "claude-x", "max_tokens": 50}
    hello = [{"role": "user", "content": "hello"}]
    reply = client.messages.create(messages=hello, **ask)
    show("anthropic", reply.content[0].text, reply.usage.output_tokens)
    with client.messages.stream(messages=hello, **ask) as stream:
        show("anthropic stream", stream.get_final_message().content[0].text)
    asked = [{"role": "user", "content": "call get_weather"}]
    tools = [{"name": "get_weather", "input_schema": WEATHER}]
    reply = client.messages.create(messages=asked, tools=tools, **ask)
    use = reply.content[-1]
    show("anthropic tool", use.name, use.input)
    back = [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"}]}]
    show("anthropic result", client.messages.create(messages=asked + back, tools=tools, **ask).content[0].text)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    show("anthropic image", client.messages.create(messages=[{"role": "user", "content": [image]}], **ask).content[0].text)
    show("anthropic tokens", client.messages.count_tokens(model="claude-x", messages=hello).input_tokens > 0)


def gemini_apis():
    client = genai.Client()
    model = "gemini-x"
    reply = client.models.generate_content(model=model, contents="hello")
    show("gemini", reply.text, reply.usage_metadata.total_token_count)
    show("gemini stream", "".join(p.text or "" for p in client.models.generate_content_stream(model=model, contents="hello")))
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="get_weather", parameters_json_schema=WEATHER)])
    config = types.GenerateContentConfig(tools=[tool])
    reply = client.models.generate_content(model=model, contents="call get_weather", config=config)
    call = reply.function_calls[0]
    show("gemini tool", call.name, call.args)
    back = [types.UserContent("call get_weather"), reply.candidates[0].content,
            types.UserContent(types.Part.from_function_response(name=call.name, response={"output": "rain"}))]
    show("gemini result", client.models.generate_content(model=model, contents=back, config=config).text)
    image = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")
    show("gemini image", client.models.generate_content(model=model, contents=["look", image]).text)
    show("gemini embedding", len(client.models.embed_content(model="embed-1", contents="one").embeddings))
    show("gemini embeddings", len(client.models.embed_content(model="embed-1", contents=["one", "two"]).embeddings))
    show("gemini tokens", client.models.count_tokens(model=model, contents="hello").total_tokens > 0)


def bedrock_apis():
    client = boto3.client("bedrock-runtime")
    ask = {"modelId": "us.maker.model-v1:0", "inferenceConfig": {"maxTokens": 50}}
    hello = [{"role": "user", "content": [{"text": "hello"}]}]
    reply = client.converse(messages=hello, **ask)
    show("bedrock", reply["output"]["message"]["content"][0]["text"], reply["usage"]["totalTokens"])
    events = list(client.converse_stream(messages=hello, **ask)["stream"])
    show("bedrock stream", "".join(e["contentBlockDelta"]["delta"]["text"] for e in events if "contentBlockDelta" in e), events[-1]["metadata"]["usage"]["totalTokens"])
    asked = [{"role": "user", "content": [{"text": "call get_weather"}]}]
    tools = {"tools": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": WEATHER}}}]}
    message = client.converse(messages=asked, toolConfig=tools, **ask)["output"]["message"]
    use = message["content"][0]["toolUse"]
    show("bedrock tool", use["name"], use["input"])
    back = [message, {"role": "user", "content": [{"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": "rain"}]}}]}]
    show("bedrock result", client.converse(messages=asked + back, toolConfig=tools, **ask)["output"]["message"]["content"][0]["text"])
    image = {"image": {"format": "png", "source": {"bytes": base64.b64decode(PIXEL)}}}
    show("bedrock image", client.converse(messages=[{"role": "user", "content": [image]}], **ask)["output"]["message"]["content"][0]["text"])


openai_apis("openai", OpenAI(), "gpt-x")
openai_apis("azure", AzureOpenAI(api_version="2024-10-21"), "gpt-x")
v1 = OpenAI(base_url=os.environ["AZURE_OPENAI_ENDPOINT"] + "/openai/v1/", api_key=os.environ["AZURE_OPENAI_API_KEY"])
show("azure v1", v1.chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "hello"}]).choices[0].message.content)
anthropic_apis()
gemini_apis()
bedrock_apis()
