// Package operations serves the AWS APIs in one process, for tests that walk the operations of all services. Its own
// tests hold what all operations that list something have in common: the sizes of their pages.
package operations

import (
	"sync"
	"testing"

	acmservice "github.com/coracle-eks/coracle/internal/aws/acm"
	autoscalingservice "github.com/coracle-eks/coracle/internal/aws/autoscaling"
	cloudtrailservice "github.com/coracle-eks/coracle/internal/aws/cloudtrail"
	cloudwatchservice "github.com/coracle-eks/coracle/internal/aws/cloudwatch"
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	ecrservice "github.com/coracle-eks/coracle/internal/aws/ecr"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	eksservice "github.com/coracle-eks/coracle/internal/aws/eks"
	"github.com/coracle-eks/coracle/internal/aws/elb"
	iamservice "github.com/coracle-eks/coracle/internal/aws/iam"
	"github.com/coracle-eks/coracle/internal/aws/iam/iamtest"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	logsservice "github.com/coracle-eks/coracle/internal/aws/logs"
	"github.com/coracle-eks/coracle/internal/aws/shield"
	ssmservice "github.com/coracle-eks/coracle/internal/aws/ssm"
	"github.com/coracle-eks/coracle/internal/aws/waf"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/datapoint"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/logs/events"
)

var shelf = sync.OnceValues(func() (*catalog.Catalog, error) { return catalog.Open(catalog.Options{}) })

// Register serves, behind mux and over the store of a fixture, the services whose operations are authorized by
// resources. IAM and STS are the fixture's.
func Register(tb testing.TB, aws *iamtest.AWS, mux *wire.Mux) {
	tb.Helper()
	images, err := image.Open(image.Options{Dir: tb.TempDir(), Region: iamtest.Region})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { images.Close() })
	logEvents, err := events.Open(tb.TempDir(), events.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { logEvents.Close() })
	addons, err := shelf()
	if err != nil {
		tb.Fatal(err)
	}
	linked := iamservice.NewServiceLinkedRoles(aws.Store, nil)
	machines := ec2service.New(ec2service.Options{Store: aws.Store,
		Keys: kmsservice.New(kmsservice.Options{Store: aws.Store})})
	machines.Register(mux)
	acmservice.New(acmservice.Options{Store: aws.Store}).Register(mux)
	efsservice.New(efsservice.Options{Store: aws.Store, Identity: aws.Identity,
		EC2: machines.NetworkInterfaces.Records}).Register(mux)
	waf.Register(mux, waf.Options{Store: aws.Store})
	shield.Register(mux)
	cloudtrailservice.New(cloudtrailservice.NewHistory(cloudtrailservice.Options{Events: logEvents})).Register(mux)
	cloudwatchservice.New(datapoint.New()).Register(mux)
	elb.Register(mux, elb.Options{Store: aws.Store, EC2: machines.NetworkInterfaces.Records})
	autoscalingservice.New(autoscalingservice.Options{Store: aws.Store, EC2: machines,
		ServiceLinkedRoles: linked}).Register(mux)
	ssmservice.New(ssmservice.Options{Store: aws.Store}).Register(mux)
	ecrservice.New(ecrservice.Options{Store: aws.Store, Images: images, Identity: aws.Identity}).Register(mux)
	logsservice.New(logsservice.Options{Store: aws.Store, Events: logEvents}).Register(mux)
	eksservice.New(eksservice.Options{Store: aws.Store, EC2: machines, ServiceLinkedRoles: linked,
		Catalog: addons}).Register(mux)
}
