package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd that has once reached its quota takes no write until an operator has made room and disarmed
// its alarm, NOSPACE. For the embedded etcd the daemon is that operator.

const (
	// repairInterval is the interval at which the daemon asks etcd for its alarms.
	repairInterval = 10 * time.Second
	// hopelessChecks is the number of checks that are skipped after a repair that freed too little.
	hopelessChecks = 30
)

// Problem returns why etcd takes no writes and what to do about it; "" when it takes them.
func (c *Connection) Problem(ctx context.Context) string {
	full, err := c.noSpaceAlarms(ctx)
	if err != nil || len(full) == 0 {
		return "" // an etcd that does not answer is told of elsewhere
	}
	if c.log == nil {
		return "etcd is full (alarm NOSPACE): compact and defragment it, then run etcdctl alarm disarm"
	}
	return "etcd is full (alarm NOSPACE) and is being compacted and defragmented; if this stays, delete objects of the " +
		"largest clusters, which is still possible, or clusters"
}

// noSpaceAlarms returns the alarms of members whose database is full.
func (c *Connection) noSpaceAlarms(ctx context.Context) (alarms []*pb.AlarmMember, err error) {
	list, err := c.Client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the alarms of etcd: %w", err)
	}
	for _, a := range list.Alarms {
		if a.Alarm == pb.AlarmType_NOSPACE {
			alarms = append(alarms, a)
		}
	}
	return alarms, nil
}

// RepairWhenFull repairs the embedded etcd whenever it is full, until ctx ends.
func (c *Connection) RepairWhenFull(ctx context.Context) error {
	ticker := time.NewTicker(repairInterval)
	defer ticker.Stop()
	c.repairOn(ctx, ticker.C)
	return ctx.Err()
}

func (c *Connection) repairOn(ctx context.Context, checks <-chan time.Time) {
	skip := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-checks:
		}
		if skip > 0 {
			skip--
			continue
		}
		reclaimed, err := c.reclaimSpace(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.Warn("etcd could not be checked for room", "error", err)
		case !reclaimed:
			skip = hopelessChecks
		}
	}
}

// reclaimSpace compacts and defragments a full etcd and disarms the alarm. It does nothing to an etcd that is not full.
// reclaimed is false when the live keys alone nearly fill etcd.
func (c *Connection) reclaimSpace(ctx context.Context) (reclaimed bool, err error) {
	full, err := c.noSpaceAlarms(ctx)
	if err != nil || len(full) == 0 {
		return err == nil, err
	}
	before, err := c.Client.Status(ctx, c.Endpoints[0])
	if err != nil {
		return false, fmt.Errorf("ask etcd for its size: %w", err)
	}
	c.log.Warn("etcd is full and takes no writes; compacting and defragmenting it",
		"fileBytes", before.DbSize, "quotaBytes", c.quota)
	started := time.Now()
	_, err = c.Client.Compact(ctx, before.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return false, fmt.Errorf("compact etcd: %w", err)
	}
	if _, err := c.Client.Defragment(ctx, c.Endpoints[0]); err != nil {
		return false, fmt.Errorf("defragment etcd: %w", err)
	}
	after, err := c.Client.Status(ctx, c.Endpoints[0])
	if err != nil {
		return false, fmt.Errorf("ask etcd for its size: %w", err)
	}
	for _, alarm := range full {
		if _, err := c.Client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm)); err != nil {
			return false, fmt.Errorf("disarm the alarm of etcd: %w", err)
		}
	}
	if after.DbSize > c.quota/10*9 {
		c.log.Error("etcd is still nearly full: delete objects of the largest clusters, or clusters",
			"fileBytes", after.DbSize, "quotaBytes", c.quota)
		return false, nil
	}
	c.log.Info("etcd has room again", "fileBytes", after.DbSize, "quotaBytes", c.quota,
		"after", time.Since(started).Round(time.Millisecond))
	return true, nil
}
