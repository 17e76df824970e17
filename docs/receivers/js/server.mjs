// An example of a webhook receiver. It verifies a delivery, stores its event and responds.
// WEBHOOK_SECRET is the signing secret of the endpoint. PORT is the port on 127.0.0.1; a
// proxy in front of it provides TLS.
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

// The largest body that is read. An event has at most 20 kB.
const maxBody = 64 << 10;

// receiver responds with 204 to genuine deliveries and with 400 to all others. If the event
// cannot be stored it responds with 503, so that the service sends it again.
function receiver(secret, store) {
  const webhook = new Webhook(secret);
  return async (request, response) => {
    const respond = (status) => response.writeHead(status).end();
    let event;
    try {
      event = webhook.verify(await readBody(request), request.headers);
    } catch {
      return respond(400);
    }
    try {
      await store(request.headers["webhook-id"], event);
    } catch {
      return respond(503);
    }
    respond(204);
  };
}

// readBody returns the body as received, which verify needs. It throws if the body is too
// long.
async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= maxBody) chunks.push(chunk);
  }
  if (size > maxBody) throw new Error("too long");
  return Buffer.concat(chunks);
}

// Replace this by an insert into a table with the unique key webhook-id. An event that
// exists already is no error. Process events from the table, after the response.
async function store(id, event) {
  console.log(id, event.type);
}

const server = createServer({ requestTimeout: 10_000 }, receiver(process.env.WEBHOOK_SECRET, store));
server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  const { address, port } = server.address();
  console.log(`listening on ${address}:${port}`);
});
