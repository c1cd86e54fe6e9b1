// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// newCompletionCommand takes the place of cobra's own, which prints past the
// outside world of the app and offers shells that nobody runs a broker in.
func newCompletionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the script that completes commands and flags in a shell",
		Example: "  source <(firn completion bash)\n" +
			"  firn completion zsh > \"${fpath[1]}/_firn\"\n" +
			"  firn completion fish > ~/.config/fish/completions/firn.fish",
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	cmd.RunE = runE(func(cmd *cobra.Command, args []string) error {
		switch root := cmd.Root(); args[0] {
		case "bash":
			return root.GenBashCompletionV2(a.stdout, true)
		case "zsh":
			return root.GenZshCompletion(a.stdout)
		default:
			return root.GenFishCompletion(a.stdout, true)
		}
	})
	return cmd
}
