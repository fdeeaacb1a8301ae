package daemon

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/coracle-eks/coracle/internal/admin"
	"github.com/coracle-eks/coracle/internal/aws/ec2"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/backup"
	"github.com/coracle-eks/coracle/internal/version"
)

// Stop ends the daemon. What it runs goes on.
func (d *daemon) Stop() {
	d.log.Info("stopping, as \"coracle down\" demands")
	d.stop()
}

// CreateAccount makes an account, and keeps its root access key with the others.
func (d *daemon) CreateAccount(ctx context.Context, account string) (admin.Account, error) {
	if err := CheckAccount(account); err != nil {
		return admin.Account{}, &admin.Refused{Reason: err.Error()}
	}
	accounts, err := d.front.accounts(ctx)
	if err != nil {
		return admin.Account{}, err
	}
	if slices.Contains(accounts, account) {
		return admin.Account{}, &admin.Refused{Reason: "account " + account + " exists already; use it with: eval \"$(coracle env --account " + account + ")\""}
	}
	c, err := d.front.ensureAccount(ctx, account)
	return admin.Account{Account: account, AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey}, err
}

// Interrupt gives a spot instance notice that it is taken away.
func (d *daemon) Interrupt(ctx context.Context, instance string) (admin.Interruption, error) {
	at, err := ec2.NewAftermath(d.front.ec2).Interrupt(ctx, instance)
	var refused *wire.Error
	if errors.As(err, &refused) {
		return admin.Interruption{}, &admin.Refused{Reason: refused.Message}
	}
	return admin.Interruption{Instance: instance, At: at}, err
}

// Backup writes the archive of the data directory while everything goes on.
func (d *daemon) Backup(ctx context.Context, w io.Writer) error {
	return backup.Write(ctx, w, d.dir, backup.Manifest{
		Version: version.String(), Taken: time.Now().UTC(), DataDir: string(d.dir),
		Account: d.settings.Account, Region: d.settings.Region, External: d.embedded == nil,
	}, backup.Sources{Etcd: d.store.Backup, Events: d.logs.events.Checkpoint})
}
