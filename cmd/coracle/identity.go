package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coracle-eks/coracle/internal/admin"
)

func identityCommand() *cobra.Command {
	var q admin.IdentityQuestion
	var output string
	cmd := &cobra.Command{
		Use:   "identity pod/NAME | serviceaccount/NAME",
		Short: "Say which IAM role a pod has, how it gets it, and what the role may do",
		Long: `Say which IAM role a pod has, how it gets it, and what the role may do.

It follows the way that credentials take: the service account, its pod identity association or annotation, what the
pod was made with, the agent on its node or the OIDC provider, the role, its trust policy, its policies; and what was
refused. A line with ! says what stands in the way, and what to do.`,
		Example: `  coracle identity pod/web-0 -n default
  coracle identity sa/aws-node -n kube-system --cluster ironman-2022
  coracle identity pod/web-0 -o json | jq -r '.steps[] | select(.problem) | .problem'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "" && output != "json" {
				return fmt.Errorf("-o %s: the format is json", output)
			}
			kind, name, ok := strings.Cut(args[0], "/")
			switch {
			case !ok || name == "":
				return errors.New("which pod? Name it as for kubectl: pod/web-0, or its service account: sa/web")
			case kind == "pod" || kind == "po" || kind == "pods":
				q.Pod = name
			case kind == "serviceaccount" || kind == "sa" || kind == "serviceaccounts":
				q.ServiceAccount = name
			default:
				return fmt.Errorf("%s is neither a pod nor a service account", args[0])
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			i, err := admin.NewClient(dir.Socket()).Identity(cmd.Context(), q)
			if errors.Is(err, admin.ErrNotRunning) {
				return notRunning(dir)
			} else if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(i)
			}
			admin.PrintIdentity(cmd.OutOrStdout(), i)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&q.Namespace, "namespace", "n", "default", "`namespace` of the pod")
	f.StringVar(&q.Cluster, "cluster", "", "`name` or ARN of the cluster (default the only one)")
	f.StringVarP(&output, "output", "o", "", "`format`: json")
	return cmd
}
