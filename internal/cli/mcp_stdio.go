package cli

import (
	"context"

	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/gateway"
)

func newMCPStdio(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "mcp-stdio",
		Short:   "Give an agent the tools of its case as an MCP server on standard input and output",
		Example: "tally mcp-stdio",
		Long: `Agents that start their MCP servers as programs start this one. It passes each
message on to the gateway of the case, whose address and token the harness gives in
TALLY_MCP_URL and TALLY_TOKEN, and ends when its input does.`,
		Hidden: true, // people do not type it
		Args:   noArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return runMCPStdio(cmd.Context(), env) },
	}
}

func runMCPStdio(ctx context.Context, env *Env) error {
	endpoint, token := env.Getenv("TALLY_MCP_URL"), env.Getenv("TALLY_TOKEN")
	if endpoint == "" || token == "" {
		return refusal.Newf(refusal.Usage, "TALLY_MCP_URL and TALLY_TOKEN are not both set").
			WithHint("the harness sets them for the agent under test; nothing else starts this command")
	}
	return gateway.Bridge(ctx, env.Stdin, env.Stdout, endpoint, token)
}
