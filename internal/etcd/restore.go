package etcd

import (
	"fmt"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// Restore makes the data of the etcd in dir from a snapshot. The etcd must have none yet, and
// must not run. A damaged snapshot is refused.
func Restore(dir, snapshotFile string) error {
	e, err := Prepare(dir)
	if err != nil {
		return err
	}
	c := e.embedConfig()
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath:        snapshotFile,
		Name:                c.Name,
		OutputDataDir:       c.Dir,
		PeerURLs:            []string{c.AdvertisePeerUrls[0].String()},
		InitialCluster:      c.InitialCluster,
		InitialClusterToken: c.InitialClusterToken,
	})
	if err != nil {
		return fmt.Errorf("restore the snapshot of etcd into %s: %w", filepath.Join(dir, "data"), err)
	}
	return nil
}
