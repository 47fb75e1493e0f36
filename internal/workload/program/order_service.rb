# frozen_string_literal: true

# The order service: the program that ddtop brings along to be looked at. It plays a small web shop with named threads
# and goes through phases, each with one trouble of its own. Plain Ruby (2.5 and later), standard library only.
#
#   ruby order_service.rb [--phase NAME] [--phase-seconds N] [--rounds N] [--threads N] [--seed N] [--log FILE]

require_relative "lib/options"
require_relative "lib/service"

$0 = "order-service"
exit(Service.new(Options.parse(ARGV)).run)
