// The network editor: a place for boxes and arrows.
import { Empty } from "../shared/notes";

export function NetworkPage() {
  return (
    <div className="centre">
      <Empty title="The network editor">
        <p>Here networks of boxes will be drawn, checked while they are drawn, run, and watched.</p>
        <p>
          Until then networks are files: <code>slipstream network --help</code> shows how to check, draw and run them.
        </p>
      </Empty>
    </div>
  );
}
