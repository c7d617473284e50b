// Command tally evaluates agents and leaves a score that anybody can check.
package main

import (
	"os"

	"tallystick/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
