// Ids by number, in the order of the modules: those that rspack chooses otherwise depend on the folder that it runs in.
module.exports = {
  optimization: { moduleIds: 'natural', chunkIds: 'natural' }
};
