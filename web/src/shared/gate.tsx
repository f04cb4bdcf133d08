// Asks for the token if the console requires one; it is sent in a request body, never in a URL.
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { get, post, Problem } from "./api";
import { ErrorNote } from "./notes";

export function Gate({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<boolean | undefined>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    let wanted = true;
    const look = () =>
      get<{ open: boolean }>("/api/session").then(
        (session) => wanted && (setOpen(session.open), setProblem(undefined)),
        (error: Problem) => {
          if (!wanted) return;
          setProblem(error);
          window.setTimeout(look, 1000);
        },
      );
    void look();
    return () => {
      wanted = false;
    };
  }, []);
  const login = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget).get("token") ?? "");
    post<{ open: boolean }>("/api/session", { token }).then(() => setOpen(true), setProblem);
  };
  if (open) return children;
  return (
    <div className="centre">
      {open === false && (
        <form className="card gate" onSubmit={login}>
          <h1>Sign in</h1>
          <p>This console is accessible from other machines. It printed a token when it started.</p>
          <label>
            Token
            <input name="token" type="password" autoComplete="current-password" autoFocus required />
          </label>
          <button className="primary">Sign in</button>
        </form>
      )}
      {problem && <ErrorNote problem={problem} />}
    </div>
  );
}
