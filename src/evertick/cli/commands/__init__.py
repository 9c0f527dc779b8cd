"""The commands, one module each; `evertick.cli.app` names them all."""
