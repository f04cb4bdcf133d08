import { describe, expect, it } from "vitest";
import { describePace, EMPTY, essential, splitColumns, type Specification, toYaml } from "../src/jobs/model";

const job = (part: Partial<Specification>): Specification => ({ ...EMPTY, ...part });

describe("a job as YAML", () => {
  it("has only what differs from the default", () => {
    expect(toYaml(job({ inputs: { input: "runs/first" }, speed: 10, columns: ["vid=id"] }))).toBe("job: toll\ninputs:\n  input: runs/first\ncolumns: [\"vid=id\"]\nspeed: 10\n");
    expect(toYaml(job({}))).toBe("job: toll\ninputs: {}\n");
  });
  it("leaves out what its kind does not have", () => {
    expect(essential(job({ job: "network", network: "a.yaml", archive: true, definitions: "x" }))).toEqual({ job: "network", network: "a.yaml", inputs: {} });
  });
  it("writes definitions as a block", () => {
    expect(toYaml(job({ job: "cuboid", definitions: "CREATE CUBOID a (b INT KEY);\nCREATE QUERY c AS SELECT b FROM a\n" }))).toContain("definitions: |\n  CREATE CUBOID a (b INT KEY);\n  CREATE QUERY c");
  });
  it("quotes what YAML would read as something else", () => {
    expect(toYaml(job({ out: "true", inputs: { input: "a: b # c" } }))).toBe('job: toll\nout: "true"\ninputs:\n  input: "a: b # c"\n');
    expect(toYaml(job({ rules: "2003" }))).toContain('rules: "2003"');
    expect(toYaml(job({ inputs: { input: "kafka:127.0.0.1:9092/cars" } }))).toContain("  input: kafka:127.0.0.1:9092/cars\n");
  });
});

it("columns are separated by commas", () => expect(splitColumns(" vin=id,, time=ts:ms ")).toEqual(["vin=id", "time=ts:ms"]));

describe("the pace of a job", () => {
  it("has the rate, and the response against the limit that it is closest to", () => {
    const response = { name: "toll_notification", typical: 2.1, longest: 4, limit: 5 };
    expect(describePace({ rate: 1234.4, response })).toBe("1,234 tuples/s, toll notification 2.10 s of 5 s");
    expect(describePace({ rate: null, response: { ...response, limit: null } })).toBe("");
  });
});
