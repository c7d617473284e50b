package cheats

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// program is an honest agent's program: one language, one or two files, with
// some lines that look like what the checks are about.
func (d *dice) program() []file {
	l := pick(d, languages)
	files := []file{d.source(l, "agent", some(d, l.honest, d.between(0, 2)))}
	if d.chance(40) {
		files = append(files, d.source(l, "tools", some(d, l.honest, d.between(0, 2))))
	}
	if d.chance(50) {
		files = append(files, file{"README.md", "# " + d.name(tongues[0]) + "\n\n" + d.prose(tongues[0], 200)})
	}
	return files
}

// source is a program with these lines in it.
func (d *dice) source(l *language, name string, lines []string) file {
	name += "." + l.extension
	switch l.name {
	case "python":
		return file{name, d.python(lines)}
	case "javascript":
		return file{name, d.javascript(lines)}
	case "shell":
		return file{name, d.shell(lines)}
	}
	return file{name, d.golang(lines)}
}

func (d *dice) python(lines []string) string {
	var b strings.Builder
	b.WriteString("import asyncio, base64, functools, glob, importlib, json, os, pickle, re, subprocess, sys\nfrom pathlib import Path\n\n")
	fmt.Fprintf(&b, "LIMIT = %d\n\n\ndef ask(client, messages):\n    reply = client.chat(messages=messages, temperature=0)\n    return reply[\"text\"]\n\n", d.between(2, 50))
	for i, line := range lines {
		name := d.variable()
		fmt.Fprintf(&b, "\nasync def %s_%d(task, client, root, path, url, item, rows):\n    %s = ask(client, [task])\n", d.fill("«w»"), i, name)
		b.WriteString(indent(d.snippet(line, name), "    "))
		b.WriteString("    return task\n\n")
	}
	b.WriteString("\ndef main(tasks, client):\n    for task in tasks[:LIMIT]:\n        print(json.dumps({\"task_id\": task[\"id\"], \"answer\": ask(client, [task])}))\n")
	return b.String()
}

func (d *dice) javascript(lines []string) string {
	var b strings.Builder
	b.WriteString("const fs = require(\"fs\");\nconst path = require(\"path\");\nconst { exec, execSync, execFileSync, spawn } = require(\"child_process\");\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "import ") {
			b.WriteString(d.snippet(line, "task") + "\n")
		}
	}
	fmt.Fprintf(&b, "\nconst LIMIT = %d;\n\nasync function ask(client, messages) {\n  const answer = await client.chat({ messages, temperature: 0 });\n  return answer.text;\n}\n", d.between(2, 50))
	for i, line := range lines {
		if strings.HasPrefix(line, "import ") {
			continue
		}
		name := d.variable()
		fmt.Fprintf(&b, "\nasync function %s%d(task, client, page, text) {\n  const %s = await ask(client, [task]);\n", d.fill("«w»"), i, name)
		b.WriteString(indent(d.snippet(line, name), "  "))
		b.WriteString("  return task;\n}\n")
	}
	b.WriteString("\nmodule.exports = { ask, LIMIT };\n")
	return b.String()
}

func (d *dice) shell(lines []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/usr/bin/env bash\nset -euo pipefail\ncd \"$(dirname \"$0\")\"\nlimit=%d\nmkdir -p out\n\n", d.between(2, 50))
	for _, line := range lines {
		name := d.variable()
		fmt.Fprintf(&b, "for task in tasks/*.json; do\n  %s=$(curl -s \"$MODEL_URL\" -d @\"$task\")\n", name)
		b.WriteString(indent(d.snippet(line, name), "  "))
		b.WriteString("done\n\n")
	}
	b.WriteString("echo \"done: $limit\"\n")
	return b.String()
}

func (d *dice) golang(lines []string) string {
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\t\"os\"\n\t\"os/exec\"\n\t\"path/filepath\"\n\t\"regexp\"\n)\n\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "//go:embed") {
			b.WriteString(d.snippet(line, "task") + "\n\n")
		}
	}
	fmt.Fprintf(&b, "const limit = %d\n", d.between(2, 50))
	for i, line := range lines {
		if strings.HasPrefix(line, "//go:embed") {
			continue
		}
		name := d.variable()
		fmt.Fprintf(&b, "\nfunc %s%d(ctx context.Context, task string) error {\n\t%s := ask(ctx, task)\n", d.fill("«w»"), i, name)
		b.WriteString(indent(d.snippet(line, name), "\t"))
		b.WriteString("\treturn nil\n}\n")
	}
	b.WriteString("\nfunc main() {\n\tfmt.Println(limit, ask(context.Background(), os.Args[1]))\n}\n")
	return b.String()
}

func (d *dice) variable() string {
	return pick(d, list("reply plan snippet body action chunk proposal"))
}

// snippet is a line with its names, and with the path of an answer key in the
// encoding that it asks for.
func (d *dice) snippet(line, variable string) string {
	key := pick(d, list("../bench/answers.json data/gold_answers.jsonl ../expected/answer_key.csv ../bench/ground_truth.json /srv/bench/solutions/answers.txt"))
	var codes []string
	for i := range len(key) {
		codes = append(codes, fmt.Sprint(key[i]))
	}
	return d.fill(line, "«x»", variable, "«b64»", base64.StdEncoding.EncodeToString([]byte(key)), "«hex»", hex.EncodeToString([]byte(key)),
		"«pct»", percent(key), "«chr»", strings.Join(codes, ", "))
}

func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(by + line + "\n")
	}
	return b.String()
}
