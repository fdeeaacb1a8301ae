//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/coracle-eks/coracle/internal/guest/bootstrap"
	"github.com/coracle-eks/coracle/internal/guest/bottlerocket"
	"github.com/coracle-eks/coracle/internal/guest/cloudinit"
	"github.com/coracle-eks/coracle/internal/guest/containertrust"
	"github.com/coracle-eks/coracle/internal/guest/efsmount"
	"github.com/coracle-eks/coracle/internal/guest/fargate"
	"github.com/coracle-eks/coracle/internal/guest/fargatemount"
	"github.com/coracle-eks/coracle/internal/guest/imds"
	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/kubeproxy"
	"github.com/coracle-eks/coracle/internal/guest/logrouter"
	"github.com/coracle-eks/coracle/internal/guest/losetup"
	"github.com/coracle-eks/coracle/internal/guest/nodeadm"
	"github.com/coracle-eks/coracle/internal/guest/podidentityagent"
	"github.com/coracle-eks/coracle/internal/guest/systemctl"
	"github.com/coracle-eks/coracle/internal/guest/warmpool"
	"github.com/coracle-eks/coracle/internal/host/machine/launch"
)

// applets are the programs by name.
var applets = map[string]applet{
	"launch": launch.Main,

	"init":       func([]string) int { return initd.Main(initd.Options{}) },
	"exec-unit":  initd.ExecUnit,
	"systemctl":  control.Systemctl,
	"journalctl": control.Journalctl,
	"shutdown":   control.Shutdown,
	"reboot":     func(args []string) int { return control.Power("reboot", args) },
	"poweroff":   func(args []string) int { return control.Power("poweroff", args) },
	"halt":       func(args []string) int { return control.Power("halt", args) },

	"cloud-init":   func(args []string) int { return cloudinit.Main(args, os.Stdout, os.Stderr) },
	"nodeadm":      func(args []string) int { return nodeadm.Main(args, os.Stdout, os.Stderr) },
	"ec2-metadata": func(args []string) int { return imds.EC2Metadata(args, os.Stdout, os.Stderr) },
	"hostnamectl":  control.Hostnamectl,
	"imds":         func(args []string) int { return imds.Main(args, os.Stdout, os.Stderr) },
	"log-router":   func(args []string) int { return logrouter.Main(args, os.Stdout, os.Stderr) },
	"losetup":      func(args []string) int { return losetup.Main(args, os.Stdout, os.Stderr) },
	"sudo":         runSudo,
	"mount.efs":    func(args []string) int { return efsmount.Main(args, os.Stdout, os.Stderr) },

	"fargate": func(args []string) int { return fargate.Main(args, os.Stdout, os.Stderr) },
	// Of Fargate machines:
	fargatemount.Name: func(args []string) int { return fargatemount.Main(args, os.Stdout, os.Stderr) },

	"eks-bootstrap":         func(args []string) int { return bootstrap.Main(args, os.Stdout, os.Stderr) },
	"get-ecr-uri":           func(args []string) int { return bootstrap.ECRURI(args, os.Stdout, os.Stderr) },
	"max-pods-calculator":   func(args []string) int { return bootstrap.MaxPods(args, os.Stdout, os.Stderr) },
	"private-dns-name":      func([]string) int { return bootstrap.PrivateDNSName(os.Stdout, os.Stderr) },
	"provider-id":           func([]string) int { return bootstrap.ProviderID(os.Stdout, os.Stderr) },
	"bottlerocket-settings": func([]string) int { return bottlerocket.Main(os.Stdout, os.Stderr) },
	// Those in images: of kube-proxy, and of the add-on eks-pod-identity-agent.
	"kube-proxy":             kubeproxy.Main,
	"eks-pod-identity-agent": podidentityagent.Main,
	"go-runner":              func(args []string) int { return podidentityagent.GoRunner(args, os.Stderr) },

	"eks-warm-pool": func(args []string) int {
		c := warmpool.Command{IMDS: &imds.Client{}, Stderr: os.Stderr, Systemctl: control.Systemctl}
		return c.Run(context.Background(), args)
	},
	"runc":               func(args []string) int { return containertrust.Main("runc", args) }, // of machines that were made before there was coracle-runc
	"pull-sandbox-image": func([]string) int { return bootstrap.PullSandboxImage(os.Stdout, os.Stderr) },
}

var control = systemctl.Command{Stdout: os.Stdout, Stderr: os.Stderr}

// runSudo runs the command when it is root already. Scripts call sudo on hosts that do not have it.
func runSudo(args []string) int {
	for len(args) > 0 && (args[0] == "-E" || args[0] == "-H" || args[0] == "-n" || args[0] == "--") {
		args = args[1:]
	}
	if len(args) == 0 || args[0][0] == '-' {
		fmt.Fprintln(os.Stderr, "usage: sudo COMMAND [ARGUMENT...]")
		return 1
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "sudo: this machine's sudo serves root alone")
		return 1
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ())
	}
	fmt.Fprintf(os.Stderr, "sudo: %s: %v\n", args[0], err)
	return 1
}
