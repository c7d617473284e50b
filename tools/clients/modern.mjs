// The client of MCP's second TypeScript SDK, which begins with a later revision
// of the protocol and falls back.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "agent", version: "1" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(process.env.TALLY_MCP_URL), {
    requestInit: { headers: { Authorization: `Bearer ${process.env.TALLY_TOKEN}` } },
  }),
);
console.log((await client.listTools()).tools.map((t) => t.name).join(","));
console.log((await client.callTool({ name: "get_weather", arguments: { city: "Oslo" } })).content[0].text);
await client.close();
