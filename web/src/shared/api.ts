// Requests to the server: errors have the server's message, changes have the header that it requires.

/** An error of the server, with the data that commands print with --json: code (docs/reference/errors.md), place, found, expected. */
export interface ErrorBody {
  code: string;
  message: string;
  hint: string;
  place?: Record<string, string | number>;
  found?: unknown;
  expected?: unknown;
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string = "",
    readonly code: string = "",
    readonly place: Record<string, string | number> = {},
  ) {
    super(message);
  }
}

async function request(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch {
    throw new Problem(0, "The console is not responding.", "Check that `slipstream console` is still running.");
  }
  if (response.ok) return response;
  const body = (await response.json().catch(() => ({}))) as Partial<ErrorBody>;
  throw new Problem(response.status, body.message ?? `The console returned an error (${response.status}).`, body.hint, body.code, body.place);
}

export async function get<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T;
}

export async function bytes(path: string, init?: RequestInit): Promise<ArrayBuffer> {
  return (await request(path, init)).arrayBuffer();
}

async function send<T>(method: string, path: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json", "x-slipstream": "1" };
  return (await (await request(path, { method, headers, body: JSON.stringify(body) })).json()) as T;
}

export const post = <T>(path: string, body: unknown = {}): Promise<T> => send<T>("POST", path, body);
export const put = <T>(path: string, body: unknown = {}): Promise<T> => send<T>("PUT", path, body);

/** Listen to server-sent events by name; reconnects automatically, and `onLink` reports whether it is connected. */
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
