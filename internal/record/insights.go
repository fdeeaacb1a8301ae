package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// Insights are the upgrade checks of a cluster with what they were made of.
//
// Writer: internal/controller/clusterinsight, which deletes the record when the cluster is gone.
type Insights struct {
	ClusterID string
	// Checks are the results, and CheckedAt is when they were last made.
	Checks    []InsightCheck
	CheckedAt time.Time
	// Source is a digest of the records of what may have changed the nodes before ObservedAt.
	Source string `json:",omitempty"`
	// Kubelets are the nodes by the version of their kubelets, and Proxies the DaemonSets of kube-proxy by theirs, as
	// the API server had them at ObservedAt; zero before the first time.
	Kubelets, Proxies []InsightVersion `json:",omitempty"`
	ObservedAt        time.Time        `json:",omitzero"`
	// Deprecated are the uses of deprecated APIs in the audit log of the last 30 days.
	Deprecated []DeprecatedAPI `json:",omitempty"`
	// AuditOffsets are the lengths up to which the files of the audit log have been read, by a digest of their
	// beginnings.
	AuditOffsets map[string]int64 `json:",omitempty"`
}

// InsightCheck is one upgrade check.
type InsightCheck struct {
	Name string // "Kubelet version skew"
	// Version is the minor version that the check is about, "1.36".
	Version string
	Status  ekstypes.InsightStatusValue
	Reason  string
	// ChangedAt is when the check got its status.
	ChangedAt time.Time
	Resources []ekstypes.InsightResourceDetail    `json:",omitempty"`
	APIs      []ekstypes.DeprecationDetail        `json:",omitempty"`
	Addons    []ekstypes.AddonCompatibilityDetail `json:",omitempty"`
}

// InsightVersion is a version of a component, and what has it.
type InsightVersion struct {
	Version string // "v1.35.4"
	Count   int
	// Paths are those of the first objects in the API, "/api/v1/nodes/ip-10-0-1-2.ec2.internal".
	Paths []string
}

// DeprecatedAPI is the use of a deprecated API.
type DeprecatedAPI struct {
	Group, Version, Resource string
	RemovedIn                string // the minor version, "1.37"
	Clients                  []DeprecatedAPIClient
}

// DeprecatedAPIClient is who uses it.
type DeprecatedAPIClient struct {
	UserAgent string
	Last      time.Time
	// Days counts the requests of each day, "2026-11-30".
	Days map[string]int32
}

// InsightsOf returns the table of insights, by ClusterKey.
func InsightsOf(s *store.Store) store.Table[Insights] { return store.NewTable[Insights](s, "insights") }
