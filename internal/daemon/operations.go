package daemon

import (
	"log/slog"

	acmservice "github.com/coracle-eks/coracle/internal/aws/acm"
	cloudformationservice "github.com/coracle-eks/coracle/internal/aws/cloudformation"
	cloudtrailservice "github.com/coracle-eks/coracle/internal/aws/cloudtrail"
	cloudwatchservice "github.com/coracle-eks/coracle/internal/aws/cloudwatch"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	ecrservice "github.com/coracle-eks/coracle/internal/aws/ecr"
	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	eksauthservice "github.com/coracle-eks/coracle/internal/aws/eksauth"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// Operations returns all operations of the SDK for the services that wire knows, and which of them a daemon serves.
func Operations() []wire.Operation {
	mux := wire.NewMux(wire.Options{Credentials: &identity.Identity{}, Authorizer: &identity.Identity{},
		Logger: slog.New(slog.DiscardHandler)})
	ec2, kms := ec2service.New(ec2service.Options{}), kmsservice.New(kmsservice.Options{})
	register(mux, nil, nil, nil, acmservice.Options{}, ec2, newEFS(nil, nil, ec2, kms), kms,
		ecrservice.New(ecrservice.Options{}), logsservice.Options{}, eksservice.Options{})
	cloudformationservice.New(cloudformationservice.Options{}).Register(mux)
	cloudtrailservice.New(nil).Register(mux)
	cloudwatchservice.New(nil).Register(mux)
	eksauthservice.New(eksauthservice.Options{}).Register(mux)
	return mux.Operations()
}
