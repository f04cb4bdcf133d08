// The frame around the pages: routing, signing in, light and dark theme.
import { lazy, Suspense, useEffect } from "react";
import { JobsPage } from "./jobs/page";
import { Gate } from "./shared/gate";
import { navigate, usePath } from "./shared/router";
import { ThemeSwitch } from "./shared/theme";

// Pages other than the first are loaded on demand.
const NetworkPage = lazy(() => import("./network/page").then((m) => ({ default: m.NetworkPage })));
const CityPage = lazy(() => import("./city/page").then((m) => ({ default: m.CityPage })));
const AskPage = lazy(() => import("./ask/page").then((m) => ({ default: m.AskPage })));
const MapPage = lazy(() => import("./map/page").then((m) => ({ default: m.MapPage })));
const TrajectoriesPage = lazy(() => import("./trajectories/page").then((m) => ({ default: m.TrajectoriesPage })));

const PAGES = [
  { path: "/jobs", title: "Jobs", key: "1", page: JobsPage },
  { path: "/city", title: "Live city", key: "2", page: CityPage },
  { path: "/network", title: "Network", key: "3", page: NetworkPage },
  { path: "/trajectories", title: "Trajectories", key: "4", page: TrajectoriesPage },
  { path: "/map", title: "Map", key: "5", page: MapPage },
  { path: "/ask", title: "Query", key: "6", page: AskPage },
] as const;

export function App() {
  const path = usePath();
  const here = PAGES.find((page) => page.path === path) ?? PAGES[0];
  useEffect(() => {
    document.title = `${here.title} · Slipstream`;
    const onKey = (event: KeyboardEvent) => {
      const target = PAGES.find((page) => event.altKey && event.key === page.key);
      if (target) navigate(target.path);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [here]);
  const Page = here.page;
  return (
    <div className="app">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="top">
        <span className="brand" aria-label="Slipstream">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M2 10h17M2 16h27M9 22h20" />
          </svg>
          Slipstream
        </span>
        <nav aria-label="Pages">
          {PAGES.map((page) => (
            <a
              key={page.path}
              href={page.path}
              title={`Alt+${page.key}`}
              aria-current={page === here ? "page" : undefined}
              onClick={(event) => {
                event.preventDefault();
                navigate(page.path);
              }}
            >
              {page.title}
            </a>
          ))}
        </nav>
        <span className="grow" />
        <ThemeSwitch />
      </header>
      <main id="main" tabIndex={-1}>
        <Gate>
          <Suspense fallback={<p className="note">Loading…</p>}>
            <Page />
          </Suspense>
        </Gate>
      </main>
    </div>
  );
}
