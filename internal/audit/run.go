package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Clusters is the part of Amazon EKS that this package calls; *eks.Client implements it.
type Clusters interface {
	ListClusters(context.Context, *eks.ListClustersInput, ...func(*eks.Options)) (*eks.ListClustersOutput, error)
	DescribeCluster(context.Context, *eks.DescribeClusterInput, ...func(*eks.Options)) (*eks.DescribeClusterOutput,
		error)
}

// Options are the options of `coracle audit`.
type Options struct {
	Targets []Target
	Cluster string    // "" is the only one
	Since   time.Time // zero is the beginning of the log
	Until   time.Time // zero is now
	Verbs   []string  // audit verbs or actions; none is all
	Users   []string  // parts of names; none is all
	Reads   bool      // also get, list and watch
	Follow  bool
	Output  string // "", "wide" or "json"
	Style   Style

	Now func() time.Time
	// Every is the interval between two queries of Follow, Poll that between two requests for the results of a query.
	Every, Poll time.Duration
}

// Run writes the timeline to out, and remarks that are not part of it to notes.
func Run(ctx context.Context, out, notes io.Writer, clusters Clusters, logs Logs, o Options) error {
	t := teller{o: o, out: out, notes: notes}
	name, err := t.chooseCluster(ctx, clusters)
	if err != nil {
		return err
	}
	t.reader = &reader{logs: logs, group: "/aws/eks/" + name + "/cluster", poll: o.Poll, page: pageSize,
		seen: map[string]time.Time{}}
	t.timeline = &Timeline{Cluster: name, Targets: o.Targets, Status: o.Output == "wide"}
	created, err := t.checkLog(ctx, clusters, name)
	if err != nil {
		return err
	}
	return t.printTimeline(ctx, created)
}

type teller struct {
	o        Options
	out      io.Writer
	notes    io.Writer
	reader   *reader
	timeline *Timeline
	print    *Printer
}

// chooseCluster returns the name of the cluster that is meant.
func (t *teller) chooseCluster(ctx context.Context, clusters Clusters) (string, error) {
	if t.o.Cluster != "" {
		return t.o.Cluster, nil
	}
	var names []string
	in := &eks.ListClustersInput{}
	for {
		out, err := clusters.ListClusters(ctx, in)
		if err != nil {
			return "", fmt.Errorf("which cluster? %w", err)
		}
		names = append(names, out.Clusters...)
		if out.NextToken == nil {
			break
		}
		in.NextToken = out.NextToken
	}
	switch len(names) {
	case 0:
		return "",
			errors.New("there is no cluster; name one that was deleted with --cluster, its log may be there still")
	case 1:
		return names[0], nil
	}
	slices.Sort(names)
	return "", fmt.Errorf("which cluster? Give --cluster one of: %s", strings.Join(names, ", "))
}

// enableCommand returns the command that switches the audit log of a cluster on.
func enableCommand(name string) string {
	return "  aws eks update-cluster-config --name " + name +
		" --logging '{\"clusterLogging\":[{\"types\":[\"audit\"],\"enabled\":true}]}'"
}

// checkLog finds out whether there is a log, and since when.
func (t *teller) checkLog(ctx context.Context, clusters Clusters, name string) (time.Time, error) {
	created, exists, err := t.reader.created(ctx)
	if err != nil {
		return time.Time{}, err
	}
	out, err := clusters.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	var missing *ekstypes.ResourceNotFoundException
	switch {
	case errors.As(err, &missing) && !exists:
		return time.Time{}, fmt.Errorf("there is no cluster %s, and no log group %s of an earlier one", name,
			t.reader.group)
	case errors.As(err, &missing):
		t.printNote("There is no cluster " + name + " any more; this is what its log has kept.")
	case err != nil:
		return time.Time{}, err
	case !auditing(out.Cluster) && !exists:
		return time.Time{},
			fmt.Errorf(
				"the audit log of cluster %s is off. Switch it on, and what happens from then on can be told:\n%s",
				name, enableCommand(name))
	case !auditing(out.Cluster):
		t.printNote("The audit log of cluster " + name + " is off now; this is what it has kept. To switch it on:\n" +
			enableCommand(name))
	case !exists:
		return time.Time{},
			fmt.Errorf("the audit log of cluster %s is on, but there is no log group %s yet: try again in a moment",
				name, t.reader.group)
	}
	return created, nil
}

func auditing(c *ekstypes.Cluster) bool {
	if c.Logging == nil {
		return false
	}
	return slices.ContainsFunc(c.Logging.ClusterLogging, func(l ekstypes.LogSetup) bool {
		return aws.ToBool(l.Enabled) && slices.Contains(l.Types, ekstypes.LogTypeAudit)
	})
}

func (t *teller) printNote(text string) { fmt.Fprintln(t.notes, text) }

func (t *teller) printTimeline(ctx context.Context, created time.Time) error {
	now := t.o.Now()
	// Events may be older than the group that they were shipped to.
	beginning := created.Add(-24 * time.Hour)
	from, to := t.o.Since, t.o.Until
	if from.IsZero() {
		from = beginning
	} else if beginning.Before(from) && t.hasOnlyNamed() {
		before, err := t.reader.earlier(ctx, t.o.Targets, beginning, from)
		if err != nil {
			return err
		}
		t.timeline.Add(before)
	}
	if to.IsZero() {
		to = now
	}
	var steps []*Step
	err := t.reader.readEvents(ctx, t.o.Targets, t.o.Reads, from, to, func(events []*auditv1.Event) error {
		events = slices.DeleteFunc(events, func(e *auditv1.Event) bool {
			return received(e).Before(t.o.Since) || !t.o.Until.IsZero() && received(e).After(to)
		})
		told := t.filterSteps(t.timeline.Add(events))
		if t.o.Output == "json" {
			return t.printJSON(told)
		}
		steps = append(steps, told...)
		return nil
	})
	if err != nil {
		return err
	}
	if t.o.Output != "json" {
		if len(steps) == 0 && !t.o.Follow {
			return t.nothing(ctx, from, to)
		}
		t.print = NewPrinter(t.out, t.o.Style)
		if err := errors.Join(t.print.Title(t.o.Targets, t.timeline.Cluster, steps), t.print.Print(steps)); err != nil {
			return err
		}
	}
	if !t.o.Follow {
		return nil
	}
	return t.followTimeline(ctx, now)
}

// followTimeline goes on with what happens, until it is interrupted.
func (t *teller) followTimeline(ctx context.Context, since time.Time) error {
	if t.print != nil {
		t.print.Live = true
	}
	err := t.reader.followEvents(ctx, t.o.Targets, since, t.o.Now, t.o.Every, func(events []*auditv1.Event) error {
		if !t.o.Reads {
			events = slices.DeleteFunc(events, func(e *auditv1.Event) bool {
				return slices.Contains(reads, e.Verb) && (e.ObjectRef == nil || connects[e.ObjectRef.Subresource] == "")
			})
		}
		events = slices.DeleteFunc(events, func(e *auditv1.Event) bool { return received(e).Before(t.o.Since) })
		steps := t.filterSteps(t.timeline.Add(events))
		if t.print == nil {
			return t.printJSON(steps)
		}
		return t.print.Print(steps)
	}, func(err error) { t.printNote(fmt.Sprintf("%v (trying again)", err)) })
	if t.print != nil {
		err = errors.Join(err, t.print.Rest())
	}
	return err
}

func (t *teller) printJSON(steps []*Step) error {
	e := json.NewEncoder(t.out)
	e.SetEscapeHTML(false)
	for _, s := range steps {
		if err := e.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

// hasOnlyNamed reports whether all targets are single objects.
func (t *teller) hasOnlyNamed() bool {
	return !slices.ContainsFunc(t.o.Targets, func(t Target) bool { return t.Name == "" })
}

// filterSteps leaves the steps that were asked for. It comes last, since the changes of a step follow from
// those before it, whosesoever.
func (t *teller) filterSteps(steps []*Step) []*Step {
	return slices.DeleteFunc(steps, func(s *Step) bool {
		if len(t.o.Verbs) > 0 && !slices.Contains(t.o.Verbs, s.Verb) && !slices.Contains(t.o.Verbs, s.Action) {
			return true
		}
		return len(t.o.Users) > 0 && !slices.ContainsFunc(t.o.Users, s.Who.mentions)
	})
}

// nothing reports what was searched when nothing was found.
func (t *teller) nothing(ctx context.Context, from, to time.Time) error {
	var what []string
	for _, target := range t.o.Targets {
		what = append(what, target.Where())
	}
	text := fmt.Sprintf("nothing about %s in %s", strings.Join(what, ", "), t.reader.group)
	if !t.o.Since.IsZero() || !t.o.Until.IsZero() {
		text += fmt.Sprintf(" from %s to %s", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	} else {
		text += ", which begins " + from.Add(24*time.Hour).UTC().Format(time.RFC3339)
	}
	if len(t.o.Verbs) > 0 {
		text += " with verb " + strings.Join(t.o.Verbs, ", ")
	}
	if len(t.o.Users) > 0 {
		text += " by " + strings.Join(t.o.Users, ", ")
	}
	if !t.o.Reads {
		text += " (reads are left out without --reads)"
	}
	if len(t.o.Targets) == 1 {
		if target := t.o.Targets[0]; target.Name != "" && target.Namespace != "" {
			others, err := t.reader.namespaces(ctx, target, from, to)
			if err != nil {
				return err
			}
			others = slices.DeleteFunc(others, func(n string) bool { return n == target.Namespace })
			if len(others) > 0 {
				text += fmt.Sprintf("; there is something in namespace %s: try -n %s", strings.Join(others, ", "),
					others[0])
			}
		}
	}
	return errors.New(text)
}

// ParseTime reads a time of the command line: 90m, 2h, 3d (ago), 2026-11-21, 2026-11-21T10:00:00Z.
func ParseTime(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(days, 64); err == nil && n >= 0 {
			return now.Add(-time.Duration(n * float64(24*time.Hour))), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
		"2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{},
		fmt.Errorf("%q is no time: give how long ago, such as 90m, 2h or 3d, or a time, such as 2026-11-21T10:00:00Z",
			s)
}
