package record

import (
	"encoding/json"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// NetworkInsightsPath is a path for VPC Reachability Analyzer to analyze.
//
// Writer: internal/aws/ec2.
type NetworkInsightsPath struct {
	EC2Resource // ID is "nip-…"
	// Source and Destination are IDs of resources; Destination is empty for an address alone.
	Source          string
	Destination     string `json:",omitempty"`
	SourceIP        string `json:",omitempty"`
	DestinationIP   string `json:",omitempty"`
	DestinationPort *int32 `json:",omitempty"`
	Protocol        ec2types.Protocol
	// What packets are at their source and at their destination.
	FilterAtSource      *ec2types.PathFilter `json:",omitempty"`
	FilterAtDestination *ec2types.PathFilter `json:",omitempty"`
}

// NetworkInsightsPaths returns the table of paths, by EC2Key.
func NetworkInsightsPaths(s *store.Store) store.Table[NetworkInsightsPath] {
	return store.NewTable[NetworkInsightsPath](s, "networkinsightspaths")
}

// NetworkInsightsAnalysis is an analysis of a path: what the records said when it was started.
//
// Writer: internal/aws/ec2.
type NetworkInsightsAnalysis struct {
	EC2Resource   // ID is "nia-…"
	PathID        string
	FilterInARNs  []string `json:",omitempty"`
	FilterOutARNs []string `json:",omitempty"`
	Status        ec2types.AnalysisStatus
	StatusMessage string `json:",omitempty"`
	PathFound     bool
	// Result has the components of the path and the explanations, as JSON of an ec2types.NetworkInsightsAnalysis without
	// its many empty members.
	Result json.RawMessage `json:",omitempty"`
}

// NetworkInsightsAnalyses returns the table of analyses, by EC2Key.
func NetworkInsightsAnalyses(s *store.Store) store.Table[NetworkInsightsAnalysis] {
	return store.NewTable[NetworkInsightsAnalysis](s, "networkinsightsanalyses")
}
