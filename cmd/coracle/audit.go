package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/coracle-eks/coracle/internal/audit"
)

func auditCommand() *cobra.Command {
	var namespace, since, until string
	var all, noColor bool
	o := audit.Options{Now: time.Now, Every: time.Second, Poll: 25 * time.Millisecond}
	cmd := &cobra.Command{
		Use:   "audit TYPE[/NAME] [NAME...]",
		Short: "Show the timeline of an object from the audit log of its cluster",
		Long: `Show the timeline of an object from the audit log of its cluster: when, who (with the IAM identity behind the
user), from which client, which verb, the outcome, what admission webhooks patched, which fields changed
and which field manager owns them now. Conflicts say whose the field is and what was wanted.

TYPE is a plural, a singular or a short name, with its group if need be, as for kubectl. Without a NAME it
is the timeline of all of that type. The cluster must have its audit log switched on.`,
		Example: `  coracle audit daemonset/aws-node -n kube-system
  coracle audit deploy web -n shop --since 2h --follow
  coracle audit cm/aws-auth -n kube-system --reads
  coracle audit pods -n shop --verb delete,evict
  coracle audit secrets -A --user jane -o json | jq -r .uri`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if all {
				namespace = ""
			}
			if o.Targets, err = audit.Targets(args, namespace); err != nil {
				return err
			}
			now := o.Now()
			for flag, to := range map[string]*time.Time{"since": &o.Since, "until": &o.Until} {
				text, _ := cmd.Flags().GetString(flag)
				if text == "" {
					continue
				}
				if *to, err = audit.ParseTime(text, now); err != nil {
					return fmt.Errorf("--%s: %w", flag, err)
				}
			}
			switch {
			case o.Output != "" && o.Output != "wide" && o.Output != "json":
				return fmt.Errorf("-o %s: the formats are wide and json", o.Output)
			case o.Since.After(now):
				return fmt.Errorf("--since %s is in the future: it is %s now", since, now.UTC().Format(time.RFC3339))
			case !o.Until.IsZero() && o.Until.Before(o.Since):
				return fmt.Errorf("--until %s is before --since %s", until, since)
			case !o.Until.IsZero() && o.Follow:
				return fmt.Errorf("--follow has no end: leave --until away")
			}
			dir, err := dataDir(cmd)
			if err != nil {
				return err
			}
			config, err := clientConfig(dir, !cmd.Flags().Changed("data-dir"))
			if err != nil {
				return err
			}
			o.Style = outputStyle(o, noColor)
			return audit.Run(
				cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), eks.NewFromConfig(config),
				cloudwatchlogs.NewFromConfig(config), o,
			)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", "default", "`namespace` of the objects")
	f.BoolVarP(&all, "all-namespaces", "A", false, "objects of all namespaces")
	f.StringVar(&o.Cluster, "cluster", "", "`name` of the cluster (default the only one)")
	f.StringVar(
		&since,
		"since",
		"",
		"begin at a `time`: 90m, 2h, 3d (ago) or 2026-11-21T10:00:00Z (default where the log begins)",
	)
	f.StringVar(&until, "until", "", "end at a `time` (default now)")
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on with what happens, until interrupted")
	f.StringSliceVar(&o.Verbs, "verb", nil, "only these `verbs`: create, patch, apply, scale, delete, exec, ...")
	f.StringSliceVar(&o.Users, "user", nil, "only users with one of these `texts` in their name, ARN or session")
	f.BoolVar(&o.Reads, "reads", false, "also get, list and watch")
	f.StringVarP(&o.Output, "output", "o", "", "`format`: wide or json (one object per step)")
	f.BoolVar(&noColor, "no-color", false, "no colors (NO_COLOR does the same)")
	return cmd
}

// outputStyle fits the output to where it goes: the terminal's width and colors, or 80 columns.
func outputStyle(o audit.Options, noColor bool) audit.Style {
	s := audit.Style{
		Width: 80,
		Wide:  o.Output == "wide",
		Many:  len(o.Targets) > 1 || o.Targets[0].Name == "" || o.Targets[0].Namespace == "" && !o.Targets[0].Cluster,
	}
	for _, t := range o.Targets {
		s.Kinds = s.Kinds || t.Kind != o.Targets[0].Kind
	}
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
