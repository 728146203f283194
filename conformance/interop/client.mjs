// A client on the TypeScript SDK: connects, lists, calls one tool, and says in JSON what it saw.
//
//   node client.mjs v1|v2 '{"url": "…"} or {"command": "…", "args": […]}' TOOL '{"argument": …}'
//
// v1 is the SDK that most clients are built on (2025-11-25), v2 the one of 2026-07-28.

const [generation, where, tool, args] = process.argv.slice(2);
const target = JSON.parse(where);
const sdk = generation === "v1" ? await v1() : await v2();
const transport = target.url
  ? new sdk.StreamableHTTPClientTransport(new URL(target.url))
  : new sdk.StdioClientTransport({ ...target, stderr: "inherit" });
const client = new sdk.Client({ name: `interop-${generation}`, version: "1.0.0" }, sdk.options);
await client.connect(transport);

const progress = [];
const { tools } = await client.listTools();
const call = { name: tool, arguments: JSON.parse(args) };
const onprogress = (said) => progress.push(said.progress);
const result = generation === "v1" ? await client.callTool(call, undefined, { onprogress }) : await client.callTool(call, { onprogress });
console.log(JSON.stringify({ server: client.getServerVersion(), protocol: sdk.protocol(client, transport), tools, result, progress }));
await client.close();

async function v1() {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  return { Client, StreamableHTTPClientTransport, StdioClientTransport, protocol: (client, transport) => transport.protocolVersion };
}

async function v2() {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const options = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
  return { Client, StreamableHTTPClientTransport, StdioClientTransport, options, protocol: (client) => client.getNegotiatedProtocolVersion() };
}
