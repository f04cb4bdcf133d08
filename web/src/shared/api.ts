// The one way to ask the server: errors come back as the server said them, changes carry the header it wants.

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string = "",
  ) {
    super(message);
  }
}

async function ask(path: string, init?: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...init });
  } catch {
    throw new Problem(0, "The console does not answer.", "Is `slipstream console` still running?");
  }
  if (answer.ok) return answer;
  const said = (await answer.json().catch(() => ({}))) as { message?: string; hint?: string };
  throw new Problem(answer.status, said.message ?? `The console answered ${answer.status}.`, said.hint);
}

export async function get<T>(path: string): Promise<T> {
  return (await (await ask(path)).json()) as T;
}

export async function bytes(path: string): Promise<ArrayBuffer> {
  return (await ask(path)).arrayBuffer();
}

async function send<T>(method: string, path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json", "x-slipstream": "1" };
  return (await (await ask(path, { method, headers, body: JSON.stringify(body) })).json()) as T;
}

export const post = <T>(path: string, body: unknown = {}): Promise<T> => send<T>("POST", path, body);
export const put = <T>(path: string, body: unknown = {}): Promise<T> => send<T>("PUT", path, body);

/** Server-sent events by name; the browser connects again by itself, `onLink` says whether it is connected. */
export function listen(
  path: string,
  handlers: Record<string, (data: string) => void>,
  onLink: (connected: boolean) => void,
): () => void {
  let source: EventSource | undefined;
  let again: number | undefined;
  const connect = () => {
    source = new EventSource(path);
    source.onopen = () => onLink(true);
    source.onerror = () => {
      onLink(false);
      // browsers give up on some errors; we do not
      if (source?.readyState === EventSource.CLOSED) again = window.setTimeout(connect, 1000);
    };
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler((event as MessageEvent<string>).data));
    }
  };
  connect();
  return () => {
    window.clearTimeout(again);
    source?.close();
  };
}
