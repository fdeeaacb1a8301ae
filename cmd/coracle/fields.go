package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/datadir"
	"github.com/coracle-eks/coracle/internal/fields"
)

func fieldsCommand() *cobra.Command {
	var output, version, conflicts, configuration, role, addon string
	var noColor bool
	var q fields.Question
	cmd := &cobra.Command{
		Use:   "fields TYPE/NAME",
		Short: "Say who owns each field of an object, and what an add-on would change",
		Long: `Say who owns each field of an object, and what an add-on would change.

The object is printed as a tree. In the margin are the field managers that own a field: eks for EKS's
add-ons, kubectl and others for what people set. A bar says how much of it EKS manages: ┃ all of it, so that
a change conflicts with EKS's, ┆ a part, so that the rest is yours.

With --resolve-conflicts or --addon-version it also says what "aws eks create-addon" or "update-addon" with
those would change, before it is done: - what goes, + what comes, ! what conflicts, = what stays as others
have it. It asks the API server by dry runs, as EKS does before it changes anything. Without an object, and
with --addon, it says what would become of all objects of that add-on.`,
		Example: `  coracle fields daemonset/aws-node -n kube-system
  coracle fields ds/aws-node -n kube-system --addon-version v1.20.4-eksbuild.1 --resolve-conflicts OVERWRITE
  coracle fields deploy/coredns -n kube-system --configuration-values '{"replicaCount":3}'
  coracle fields --addon vpc-cni --resolve-conflicts NONE
  coracle fields deploy/web -n shop -o json | jq -r '.fields[] | [.path, (.owners // [])[]] | @tsv'`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			if changed("resolve-conflicts") || changed("addon-version") || changed("addon") ||
				changed("configuration-values") ||
				changed("service-account-role-arn") {
				q.WhatIf = &fields.WhatIf{Addon: addon, Version: version, Conflicts: strings.ToUpper(conflicts)}
				if changed("service-account-role-arn") {
					q.WhatIf.Role = &role
				}
			}
			if err := parseTarget(args, addon, &q); err != nil {
				return err
			}
			if c := strings.ToUpper(conflicts); c != "NONE" && c != "OVERWRITE" && c != "PRESERVE" {
				return fmt.Errorf("--resolve-conflicts %s: it is NONE, OVERWRITE or PRESERVE", conflicts)
			}
			if changed("configuration-values") {
				text, err := readArgument(configuration)
				if err != nil {
					return fmt.Errorf("--configuration-values: %w", err)
				}
				q.WhatIf.Configuration = &text
			}
			if output != "" && output != "wide" && output != "json" {
				return fmt.Errorf("-o %s: the formats are wide and json", output)
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			answer, err := askFields(cmd.Context(), dir, q)
			if err != nil {
				return err
			}
			if output == "json" {
				return fields.PrintJSON(cmd.OutOrStdout(), answer, false)
			}
			return fields.Print(cmd.OutOrStdout(), answer, fieldsStyle(output == "wide", noColor))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&q.Namespace, "namespace", "n", "default", "`namespace` of the object")
	f.StringVar(&q.Cluster, "cluster", "", "`name` or ARN of the cluster (default the only one)")
	f.StringVar(&addon, "addon", "", "`name` of the add-on (default the one that has the object)")
	f.StringVar(
		&version,
		"addon-version",
		"",
		"`version` of the add-on that the request would ask for (default the one that there is, or the cluster's "+
			"default)",
	)
	f.StringVar(
		&conflicts,
		"resolve-conflicts",
		"NONE",
		"how the request would have `conflicts` resolved: NONE, OVERWRITE or PRESERVE",
	)
	f.StringVar(
		&configuration,
		"configuration-values",
		"",
		"`configuration` that the request would bring, JSON or YAML, or file://PATH",
	)
	f.StringVar(&role, "service-account-role-arn", "", "`ARN` of the role that the request would bring")
	f.StringVarP(&output, "output", "o", "", "`format`: wide (also status, and long values whole) or json")
	f.BoolVar(&noColor, "no-color", false, "no colors (NO_COLOR does the same)")
	return cmd
}

// parseTarget reads TYPE/NAME or TYPE NAME; nothing is the whole of an add-on.
func parseTarget(args []string, addon string, q *fields.Question) error {
	switch len(args) {
	case 0:
		if addon == "" {
			return errors.New(
				"which object? Name it as for kubectl: daemonset/aws-node; " +
					"or the add-on all of whose objects are meant: --addon vpc-cni",
			)
		}
		return nil
	case 1:
		var ok bool
		if q.Type, q.Name, ok = strings.Cut(args[0], "/"); !ok {
			return fmt.Errorf("which %s? Name it as for kubectl: %s/NAME", args[0], args[0])
		}
	case 2:
		q.Type, q.Name = args[0], args[1]
	}
	if q.Type == "" || q.Name == "" || strings.Contains(q.Name, "/") {
		return fmt.Errorf("%q is not TYPE/NAME, such as daemonset/aws-node", strings.Join(args, " "))
	}
	return nil
}

// readArgument returns a value of the command line, or the content of the file that it names, as aws does.
func readArgument(value string) (string, error) {
	path, ok := strings.CutPrefix(value, "file://")
	if !ok {
		return value, nil
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// fieldsStyle fits the output to where it goes: a terminal's width and colors, or lines of any length.
func fieldsStyle(all, noColor bool) fields.Style {
	s := fields.Style{All: all}
	if isatty.IsTerminal(os.Stdout.Fd()) {
		s.Color = !noColor && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
			s.Width = width
		}
	} else if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		s.Width = n
	}
	return s
}

// askFields asks the daemon of dir. Clusters of its first account and region take precedence over others of their name.
func askFields(ctx context.Context, dir datadir.Dir, q fields.Question) (fields.Answer, error) {
	s, err := dir.ReadSettings()
	if errors.Is(err, fs.ErrNotExist) {
		return fields.Answer{}, notRunning(dir)
	}
	if err != nil {
		return fields.Answer{}, err
	}
	q.Account, q.Region = s.Account, s.Region
	a, err := admin.NewClient(dir.Socket()).Fields(ctx, q)
	if errors.Is(err, admin.ErrNotRunning) {
		return a, notRunning(dir)
	}
	return a, err
}
