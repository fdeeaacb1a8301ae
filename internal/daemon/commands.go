package daemon

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/admin"
	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/inspect"
	"github.com/coracle-eks/coracle/internal/status"
	"github.com/coracle-eks/coracle/internal/upstream"
	"github.com/coracle-eks/coracle/internal/version"
)

// commands answers the commands that arrive on the admin socket.
type commands struct {
	*status.Reporter
	*inspect.Inspector
	d *daemon
}

func (d *daemon) commands() *commands {
	names := map[string]bool{}
	for _, c := range slices.Concat(d.clusters.controllers, d.logs.controllers) {
		names[c.Name] = true
	}
	o := status.Options{
		Dir: d.dir, Settings: d.settings, Started: d.started, Machines: d.machines(),
		Endpoint: EndpointURL(d.settings.Listen), Webhooks: d.webhookURL(),
		Processes: d.processes, Etcd: d.etcd, Store: d.store, Events: d.logs.events,
		Controllers: slices.Sorted(maps.Keys(names)), Accounts: d.api.accounts, EKS: d.api.eksClient, Log: d.log,
		CountByStatus: func(ctx context.Context) (clusters, nodegroups map[string]int, err error) {
			return eksservice.CountByStatus(ctx, d.store)
		},
	}
	o.Builds, o.Images = runningBuilds, func() []string { return nil }
	if d.host.images != nil {
		o.Images = d.host.images.InProgress
	}
	if d.embedded != nil {
		o.EtcdProcess = etcdProcess
	}
	return &commands{
		Reporter: status.New(o),
		Inspector: inspect.New(inspect.Options{
			Store: d.store, Config: d.clusterConfig(d.clusters.planes), Catalog: d.catalog, Identity: d.api.identity,
			Log: d.log,
		}),
		d: d,
	}
}

// runningBuilds returns the programs that are being built.
func runningBuilds() (builds []admin.Build) {
	for _, p := range upstream.Running() {
		builds = append(builds, admin.Build{Title: p.Title, Step: p.String(), Percent: p.Percent()})
	}
	return builds
}

// machines describes the machines of instances that are launched now.
func (d *daemon) machines() string {
	if reason := d.settings.Simulated; reason != "" {
		return "simulated, as this host cannot have machines (" + reason + ")"
	}
	if d.unavailable != "" {
		return d.settings.Machines + ", of which none boots now, as this host cannot have machines (" +
			d.unavailable + ")"
	}
	text := d.settings.Machines
	if d.sharedUsers != "" {
		text += ", without user namespaces (" + d.sharedUsers + ")"
	}
	if d.sharedDisk != "" {
		text += ", with root volumes of no size (" + d.sharedDisk + ")"
	}
	return text
}

// Stop ends the daemon. What it runs goes on.
func (c *commands) Stop() {
	c.d.log.Info("stopping, as \"coracle down\" demands")
	c.d.stop()
}

// CreateAccount makes an account, and keeps its root access key with the others.
func (c *commands) CreateAccount(ctx context.Context, account string) (admin.Account, error) {
	if err := CheckAccount(account); err != nil {
		return admin.Account{}, &admin.Refused{Reason: err.Error()}
	}
	accounts, err := c.d.api.accounts(ctx)
	if err != nil {
		return admin.Account{}, err
	}
	if slices.Contains(accounts, account) {
		return admin.Account{}, &admin.Refused{
			Reason: "account " + account + " exists already; use it with: eval \"$(coracle env --account " + account +
				")\"",
		}
	}
	key, err := c.d.api.ensureAccount(ctx, account)
	return admin.Account{Account: account, AccessKeyID: key.AccessKeyID, SecretAccessKey: key.SecretAccessKey}, err
}

// Interrupt gives a spot instance notice that it is taken away.
func (c *commands) Interrupt(ctx context.Context, instance string) (admin.Interruption, error) {
	at, err := c.d.api.ec2.InstanceLifecycle().Interrupt(ctx, instance)
	var refused *wire.Error
	if errors.As(err, &refused) {
		return admin.Interruption{}, &admin.Refused{Reason: refused.Message}
	}
	return admin.Interruption{Instance: instance, At: at}, err
}

// Backup writes the archive of the data directory while everything goes on.
func (c *commands) Backup(ctx context.Context, w io.Writer, volumes bool) ([]string, error) {
	from := backup.Sources{Etcd: c.d.store.Backup, Events: c.d.logs.events.Checkpoint}
	if volumes {
		from.Contents = c.d.volumeContents()
		defer from.Contents.Release()
	}
	missing, err := backup.Write(ctx, w, c.d.dir, backup.Manifest{
		Version: version.String(), Taken: time.Now().UTC(), DataDir: string(c.d.dir),
		Account: c.d.settings.Account, Region: c.d.settings.Region, External: c.d.embedded == nil,
	}, from)
	for id, reason := range missing {
		c.d.log.Warn("a backup lacks the content of a volume", "volume", id, "reason", reason)
	}
	return slices.Sorted(maps.Keys(missing)), err
}

// LoadImages puts the images of an archive into the registry. An error is nearly always the archive's fault, or the
// lack of a repository, and therefore the caller's to know.
func (c *commands) LoadImages(ctx context.Context, archive io.Reader) (admin.Loaded, error) {
	references, err := c.d.host.images.Load(ctx, archive, c.d.api.access)
	if err != nil {
		return admin.Loaded{}, &admin.Refused{Reason: err.Error()}
	}
	c.d.log.Info("loaded images", "images", references)
	return admin.Loaded{References: references}, nil
}

// Images lists what is in the registry.
func (c *commands) Images(ctx context.Context) ([]admin.Image, error) {
	images, err := c.d.host.images.List(ctx)
	if err != nil {
		return nil, err
	}
	all := []admin.Image{}
	for _, i := range images {
		all = append(
			all,
			admin.Image{Repository: i.Repository, Tags: i.Tags, Digest: i.Digest, Size: i.Size, Pushed: i.Pushed},
		)
	}
	return all, nil
}
