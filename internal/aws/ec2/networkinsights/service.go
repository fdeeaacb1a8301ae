// Package networkinsights serves VPC Reachability Analyzer in the EC2 API: paths, and analyses of them. An analysis is
// computed from the records when it is started, by internal/reachability, and kept as it was.
//
// https://docs.aws.amazon.com/vpc/latest/reachability/what-is-reachability-analyzer.html
package networkinsights

import (
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/ec2/resource"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
)

// Service serves the operations. It is safe for concurrent use.
type Service struct {
	*resource.Records

	pathView     resource.View[record.NetworkInsightsPath, types.NetworkInsightsPath]
	analysisView resource.View[record.NetworkInsightsAnalysis, types.NetworkInsightsAnalysis]
}

// New returns the service over the records.
func New(records *resource.Records) *Service {
	s := &Service{Records: records}
	s.pathView, s.analysisView = s.newPathView(), s.newAnalysisView()
	return s
}

// Register serves the operations.
func (s *Service) Register(mux *wire.Mux) {
	resource.Register(mux, s.pathHandlers()...)
	resource.Register(mux, s.analysisHandlers()...)
}
