// Package initd is process 1 of a machine: a small init that runs systemd's unit files.
//
// It begins with default.target and what that wants (fargate.target on the machine of a Fargate pod), supervises
// services, keeps their output in a bounded journal, answers systemctl over a socket, and ends the machine by
// reboot(2), which the machine's host understands. What boots a machine (its network, cloud-init, containerd, the
// kubelet) is in unit files, as on any Linux; init knows none of it by name but for the report of the boot that the
// host reads.
//
// Files: manager.go holds units and jobs; service.go a service, start.go, exit.go and stop.go what happens in its life,
// output.go where its output goes; process.go starts and reaps processes; cgroup.go gives each service a cgroup;
// journal.go keeps output; protocol.go has the requests of systemctl and init's answers; control.go answers;
// shutdown.go ends. All but the protocol needs Linux.
package initd
