package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// SelfManagedAddons reports that a new cluster was given the VPC CNI plugin, kube-proxy and CoreDNS. From then on they
// are their users'. The row goes some time after the Cluster row has gone.
//
// Writer: internal/controller/addon.
type SelfManagedAddons struct {
	ClusterID string
	// Version is the minor version of the cluster that they were chosen for, "1.35".
	Version   string
	AppliedAt time.Time
}

// SelfManagedAddonsTable returns the table of what new clusters were given, by ClusterKey.
func SelfManagedAddonsTable(s *store.Store) store.Table[SelfManagedAddons] {
	return store.NewTable[SelfManagedAddons](s, "selfmanagedaddons")
}
