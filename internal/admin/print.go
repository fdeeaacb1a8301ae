package admin

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/coracle-eks/coracle/internal/terminal"
)

// Print writes the status for a person.
func (s Status) Print(w io.Writer, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { terminal.Fprintf(t, format+"\n", args...) }
	row("daemon\trunning\tpid %d, up %s, version %s", s.PID, formatAge(now, s.Started), s.Version)
	row("endpoint\t%s\tregion %s, accounts %s", s.Endpoint, s.Region, strings.Join(s.Accounts, ", "))
	row("webhooks\t%s\tfor API servers", s.Webhooks)
	etcd := fmt.Sprintf("%s of data in a file of %s", formatSize(s.Etcd.InUse), formatSize(s.Etcd.File))
	if s.Etcd.Error != "" {
		etcd = s.Etcd.Error
	}
	if p := s.Etcd.Process; p != nil {
		etcd += ", " + p.describeState(now)
	} else {
		etcd += ", not run by coracle"
	}
	if !s.Etcd.Separated {
		etcd += ", clusters share one identity"
	}
	row("etcd\t%s\t%s", strings.Join(s.Etcd.Endpoints, ","), etcd)
	if s.Etcd.Problem != "" {
		row("\t\t! %s", s.Etcd.Problem)
	}
	row("memory\t%s\tof which the daemon %s", formatSize(s.Memory), formatSize(s.DaemonMemory))
	row("disk\t%s\tin %s; %s of %s free", formatSize(s.Disk.Used), s.DataDir, formatSize(s.Disk.Free),
		formatSize(s.Disk.Total))
	row("logs\t%s\t%s events of %s in %s", formatSize(s.Logs.Disk), humanize.Comma(s.Logs.Events),
		formatSize(s.Logs.Stored), english.Plural(s.Logs.Groups, "log group", ""))
	row("machines\t%s\t%s", s.Machines, s.describeShared())
	if err := t.Flush(); err != nil {
		return err
	}
	if err := s.printBuilds(w); err != nil {
		return err
	}
	if len(s.Clusters) == 0 {
		fmt.Fprintln(w, "\nno clusters")
	}
	for _, c := range s.Clusters {
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		terminal.Fprintf(t, "cluster\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Status, c.Version, formatSize(c.Memory), c.Endpoint)
		terminal.Fprintf(t, "\tin %s of %s, id %s\n", c.Region, c.Account, c.ID)
		for _, p := range c.Components {
			terminal.Fprintf(t, "\t%s\t%s\n", p.Name, p.describeState(now))
		}
		for _, issue := range c.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if err := s.printInstances(w); err != nil {
		return err
	}
	if err := s.printVolumes(w); err != nil {
		return err
	}
	if err := s.printFileSystems(w); err != nil {
		return err
	}
	if err := s.printLoadBalancers(w); err != nil {
		return err
	}
	return s.printStacks(w, now)
}

func (s Status) printBuilds(w io.Writer) error {
	if len(s.Builds)+len(s.Images) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, b := range s.Builds {
		terminal.Fprintf(t, "build\t%d%%\t%s\n", b.Percent, b.Step)
	}
	for _, reference := range s.Images {
		terminal.Fprintf(t, "image\t\t%s is being made or fetched\n", reference)
	}
	return t.Flush()
}

func (s Status) printInstances(w io.Writer) error {
	if len(s.Instances) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, i := range s.Instances {
		terminal.Fprintf(t, "instance\t%s\t%s\t%s\t%s\t%s of %s\t%s\n", i.ID, i.State, i.Type, i.Address,
			formatSize(i.Memory), formatSize(i.Limit), i.Name)
		for _, issue := range i.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
	}
	return t.Flush()
}

func (s Status) printVolumes(w io.Writer) error {
	if len(s.Volumes) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range s.Volumes {
		terminal.Fprintf(t, "volume\t%s\t%s\t%s\t%s\n", v.ID, formatSize(v.Size), v.Type, strings.Join(v.Instances, ", "))
		for _, issue := range v.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
	}
	return t.Flush()
}

func (s Status) printFileSystems(w io.Writer) error {
	if len(s.FileSystems) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range s.FileSystems {
		terminal.Fprintf(t, "file system\t%s\t%s\t%s\t%s\t%s\n", f.ID, f.State, formatSize(f.Size),
			strings.Join(f.Addresses, ", "), f.Name)
		for _, issue := range f.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
	}
	return t.Flush()
}

func (s Status) printLoadBalancers(w io.Writer) error {
	if len(s.LoadBalancers) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, b := range s.LoadBalancers {
		terminal.Fprintf(t, "load balancer\t%s\t%s\t%s\t%d of %d healthy\t%s\t%s\n", b.Name, b.State, b.Kind, b.Healthy,
			b.Targets, b.DNSName, b.Service)
		for _, issue := range b.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
	}
	return t.Flush()
}

func (s Status) printStacks(w io.Writer, now time.Time) error {
	if len(s.Stacks) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, stack := range s.Stacks {
		terminal.Fprintf(t, "stack\t%s\t%s\tin %s of %s\n", stack.Name, stack.Status, stack.Region, stack.Account)
		for _, r := range stack.Pending {
			terminal.Fprintf(t, "\t%s\t%s\t%s, for %s\n", r.LogicalID, r.Status, r.Type, formatAge(now, r.Since))
		}
		for _, issue := range stack.Issues {
			terminal.Fprintf(t, "\t! %s\n", issue)
		}
	}
	return t.Flush()
}

// describeShared describes the resources that the running instances were promised, which may be more than there are.
func (s Status) describeShared() string {
	running, cpus, limit := 0, 0, int64(0)
	for _, i := range s.Instances {
		if i.State == "running" {
			running++
			cpus += i.CPUs
			limit += i.Limit
		}
	}
	if running == 0 {
		return "none running"
	}
	text := fmt.Sprintf("%d running: %s and %s on a host of %d and %s", running, english.Plural(cpus, "CPU", ""),
		formatSize(limit), s.Host.CPUs, formatSize(s.Host.Memory))
	if cpus > s.Host.CPUs || limit > s.Host.Memory {
		text += ", overcommitted"
	}
	return text
}

func (c Component) describeState(now time.Time) string {
	how := "not running"
	if c.PID != 0 {
		how = fmt.Sprintf("pid %d, up %s, %s", c.PID, formatAge(now, c.Started), formatSize(c.Memory))
	}
	if c.Problem != "" {
		how = c.Problem
	}
	if c.Deaths > 0 {
		how += fmt.Sprintf(", died %d times in a row, last: %s", c.Deaths, c.LastExit)
	}
	return how
}

func formatSize(bytes int64) string { return humanize.IBytes(uint64(max(0, bytes))) }

// formatAge formats the time since then, in its two largest units.
func formatAge(now, then time.Time) string {
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
