// Trajectories on the map of their streets.
import { Empty } from "../shared/notes";

export function TrajectoriesPage() {
  return (
    <div className="centre">
      <Empty title="Trajectories">
        <p>Here recorded journeys will be played on the map of their streets, and asked who was where and when.</p>
        <p>
          Until then: <code>slipstream berlinmod --help</code> makes journeys and answers the seventeen queries.
        </p>
      </Empty>
    </div>
  );
}
