// The two ways to the server: reading recordings, and a socket to one live run.

export async function read(path) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store" });
  } catch {
    throw new Error("The server does not answer. Is `radt view` still running?");
  }
  if (answer.status === 401) {
    throw new Error("This page lost its key. Open the address that `radt view` printed.");
  }
  const content = await answer.json().catch(() => ({ message: "The answer cannot be read." }));
  if (!answer.ok) throw new Error(content.message ?? `The server answered ${answer.status}.`);
  return content;
}

// Questions are answered one by one, in order.
export class Live {
  constructor(onLost) {
    this.waiting = [];
    this.closed = false;
    this.socket = new WebSocket(new URL("api/live", location.href.replace(/^http/, "ws")).href);
    this.opened = new Promise((resolve, reject) => {
      this.socket.addEventListener("open", resolve);
      this.socket.addEventListener("close", () => reject(new Error("closed")));
    });
    this.opened.catch(() => {});
    this.refusal = null; // what the server said before it hung up
    this.socket.addEventListener("message", (event) => {
      const answer = JSON.parse(event.data);
      const question = this.waiting.shift();
      if (!question) this.refusal = answer.message ?? null;
      else if (answer.kind === "error") question.reject(new Error(answer.message));
      else question.resolve(answer);
    });
    this.socket.addEventListener("close", (event) => {
      const reason = this.refusal ?? lostBecause(event);
      for (const question of this.waiting.splice(0)) question.reject(new Error(reason));
      if (!this.closed) onLost(reason);
    });
  }

  async ask(question) {
    await this.opened.catch(() => {
      throw new Error(this.refusal ?? "There is no connection to the server.");
    });
    if (this.socket.readyState !== WebSocket.OPEN) throw new Error("The live run has ended.");
    return new Promise((resolve, reject) => {
      this.waiting.push({ resolve, reject });
      this.socket.send(JSON.stringify(question));
    });
  }

  close() {
    this.closed = true;
    this.socket.close();
  }
}

function lostBecause(event) {
  if (event.reason === "idle") return "The live run was closed because nothing happened for long.";
  if (event.code === 1013) return "Too many live runs are open. Close another tab.";
  return "The server is gone. Start it again with `radt view` and open its new address.";
}
