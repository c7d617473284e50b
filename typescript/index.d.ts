export interface Row<Input = any, Expected = any> {
  input: Input;
  expected?: Expected;
  id?: string | number;
  tags?: string[];
  metadata?: Record<string, unknown>;
}

export interface Hooks {
  id: string;
  metadata: Record<string, unknown>;
  tags: string[];
}

export interface ScorerArguments<Input = any, Output = any, Expected = any> {
  input: Input;
  output: Output;
  expected: Expected;
  metadata: Record<string, unknown>;
}

/** null or undefined: the scorer says nothing of this case. */
export type Score = boolean | number | null | undefined | { name?: string; score: number | boolean | null; reason?: string; metadata?: Record<string, unknown> };

/** A grader of tally: its name, or {grader, ...members} as docs/formats/grading.md has them. */
export type Grader = string | ({ grader: string; name?: string } & Record<string, unknown>);

/** A function of one object, or of (input, output, expected). */
export type Scorer<Input = any, Output = any, Expected = any> =
  | ((args: ScorerArguments<Input, Output, Expected>) => Score | Promise<Score>)
  | ((input: Input, output: Output, expected: Expected) => Score | Promise<Score>);

export interface Options<Input = any, Output = any, Expected = any> {
  /** Rows, an iterable of rows, a function that gives them, or the path of a JSONL file. */
  data: Iterable<Row<Input, Expected>> | AsyncIterable<Row<Input, Expected>> | (() => any) | string;
  task: (input: Input, hooks: Hooks) => Output | Promise<Output>;
  scores: Array<Scorer<Input, Output, Expected> | Grader>;
  /** The score from which on a scorer passes a case: 0.5. */
  threshold?: number;
  /** As registration.yaml has them; every case must pass if absent. */
  gates?: Array<Record<string, unknown>>;
  maxConcurrency?: number;
  trials?: number;
  /** Seconds for the task, and for each scorer: 60. */
  timeout?: number;
  /** Run the task in tally's sandbox, its model calls through the gateway. */
  sandbox?: boolean;
  target?: string;
  workspace?: string;
  /** Further flags of tally run. */
  flags?: string[];
  quiet?: boolean;
  /** false leaves process.exitCode alone. */
  setExitCode?: boolean;
}

export interface EvalCase {
  id: string;
  input: any;
  expected: any;
  output: any;
  outcome: string;
  score: number | null;
  scores: Record<string, number | null>;
  reason: string;
  tags: string[];
  metadata: Record<string, unknown>;
  repeat: number;
}

export interface EvalResult {
  name: string;
  /** The id of the attempt in the ledger. */
  attempt: string;
  /** What tally run decided by the gates of the class. */
  passed: boolean;
  cases: EvalCase[];
  summary: Record<string, any>;
  /** What tally run said, as it stands. */
  run: Record<string, any>;
  command: string;
  raiseForFailures(): EvalResult;
  toString(): string;
  toHTML(): string;
}

export class TallyError extends Error {
  name: string;
  hint: string;
  code: number;
}

export class EvalFailed extends Error {}

export function Eval<Input = any, Output = any, Expected = any>(name: string, options: Options<Input, Output, Expected>): Promise<EvalResult>;
