// SPDX-License-Identifier: MIT

// Package profile lets a program say where its CPU time goes, on hosts on which perf cannot.
package profile

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// Into writes a CPU profile into a file, from now on until SIGTERM or SIGINT, which end the program
// as soon as it is written. Without a name there is none.
func Into(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-told
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}()
	return nil
}
