package daemon

import (
	ec2service "github.com/coracle-eks/coracle/internal/aws/ec2"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	"github.com/coracle-eks/coracle/internal/aws/iam/identity"
	kmsservice "github.com/coracle-eks/coracle/internal/aws/kms"
	"github.com/coracle-eks/coracle/internal/controller/filesystem"
	"github.com/coracle-eks/coracle/internal/store"
)

// newEFS returns the service of EFS, whose mount targets have network interfaces of EC2.
func newEFS(s *store.Store, who *identity.Identity, ec2 *ec2service.Service,
	keys *kmsservice.Service) *efsservice.Service {
	return efsservice.New(efsservice.Options{Store: s, Identity: who, EC2: ec2.NetworkInterfaces.Records, Keys: keys})
}

// newFileSystems returns the controller of file systems and mount targets.
func (d *daemon) newFileSystems() *filesystem.Controller {
	return filesystem.New(filesystem.Options{
		Store: d.store, EFS: efsservice.NewLifecycle(d.api.efs), Dir: d.dir, Log: d.log,
		Listeners: RealMachines(d.settings),
	})
}
