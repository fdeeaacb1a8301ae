package record

import (
	"time"

	"github.com/coracle-eks/coracle/internal/store"
)

// FargateProfile selects the pods of a cluster that run on Fargate.
//
// Writer: internal/aws/eks. A cluster that has one cannot be deleted.
type FargateProfile struct {
	ClusterID string
	Name      string
	CreatedAt time.Time
}

// FargateProfileKey returns the key of a Fargate profile.
func FargateProfileKey(account, region, cluster, name string) string {
	return store.Key(account, region, cluster, name)
}

// FargateProfiles returns the table of Fargate profiles, by FargateProfileKey.
func FargateProfiles(s *store.Store) store.Table[FargateProfile] {
	return store.NewTable[FargateProfile](s, "fargateprofiles")
}
