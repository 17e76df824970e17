// An example of a receiver of webhooks: it verifies, answers at once and hands on.
// WEBHOOK_SECRET is the endpoint's signing secret, PORT where it listens on 127.0.0.1.
// TLS is ended by the proxy before it.
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

// An event has 20 kB at most.
const maxBody = 64 << 10;

// receiver answers 204 to what the service signed, 400 to all else.
function receiver(secret, store) {
  const webhook = new Webhook(secret);
  return async (request, response) => {
    const answer = (status) => response.writeHead(status).end();
    let event;
    try {
      // The bytes as they came: a body that was parsed and printed again is another.
      event = webhook.verify(await read(request), request.headers);
    } catch {
      return answer(400);
    }
    try {
      await store(request.headers["webhook-id"], event);
    } catch {
      return answer(503);
    }
    answer(204);
  };
}

// read takes a body that is not too long.
async function read(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size <= maxBody) chunks.push(chunk);
  }
  if (size > maxBody) throw new Error("too long");
  return Buffer.concat(chunks);
}

// In place of a table with webhook-id as its key: what is there already stays as it
// is, and a worker takes events from it.
async function store(id, event) {
  console.log(id, event.type);
}

const server = createServer({ requestTimeout: 10_000 }, receiver(process.env.WEBHOOK_SECRET, store));
server.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
  const { address, port } = server.address();
  console.log(`listening on ${address}:${port}`);
});
